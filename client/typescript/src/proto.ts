/** The messages of the wire contract. @module */

export * from "./gen/hookd/v1/admin_service_pb.js";
export * from "./gen/hookd/v1/hook_service_pb.js";
