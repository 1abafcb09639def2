package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	hookdv1 "example.com/agent/gen/hookd/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Act is what an agent does now. Its zero value is the safe one.
type Act int

const (
	Refuse   Act = iota // the tool does not run, and the model gets the reason
	Run                 // run the tool, or stop where the agent wanted to
	Continue            // the agent wanted to stop and goes on, the reason is its next instruction
	Halt                // stop the agent
)

// Gate is the answer to one question. There is no error to forget: what happens without an answer is decided in here.
type Gate struct {
	Act Act
	// Params is the JSON object to run the tool with, digits and all. Set where Act is Run.
	Params string
	// Reason is for the model, or the person.
	Reason string
}

// Hookd asks, with a deadline on every call. OnUnavailable says what happens where hookd cannot be asked: whether a tool
// (of the name; empty for Stop) may run then. There is no default on purpose.
type Hookd struct {
	connection    *grpc.ClientConn
	stub          hookdv1.HookServiceClient
	Deadline      time.Duration
	OnUnavailable func(tool string) bool
}

// The service config that hookd documents: calls are spread over replicas and never retried. gRPC itself sends a call
// again that no server saw; what hookd answered, a shed call too, is an answer.
//
//go:embed service-config.json
var serviceConfig string

// Dial makes a connection when it is first needed. For another machine use credentials.NewTLS.
func Dial(target string, deadline time.Duration, onUnavailable func(tool string) bool) (*Hookd, error) {
	connection, err := grpc.NewClient(
		target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(serviceConfig),
		// A hookd that is back is asked at once: gRPC's own pause grows to two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// hookd is asked directly, whatever the environment says of proxies.
		grpc.WithNoProxy(),
	)
	if err != nil {
		return nil, err
	}
	return &Hookd{connection, hookdv1.NewHookServiceClient(connection), deadline, onUnavailable}, nil
}

// PreToolUse asks whether a tool may run with these parameters, a JSON object as the model wrote it.
func (h *Hookd) PreToolUse(session, tool, params string) Gate {
	request := &hookdv1.TriggerRequest{
		Event:     "PreToolUse",
		SessionId: session,
		ToolCall:  &hookdv1.ToolCall{Tool: tool, ParamsJson: params},
	}
	answer, err := h.trigger(request)
	if err != nil {
		if isUnavailable(err) && h.OnUnavailable(tool) {
			return Gate{Act: Run, Params: params}
		}
		return Gate{Act: Refuse, Reason: err.Error()}
	}
	if answer.Halt {
		return halt(answer)
	}
	switch answer.Verdict {
	case hookdv1.Verdict_VERDICT_NONE, hookdv1.Verdict_VERDICT_ALLOW:
		if answer.ModifiedParamsJson == nil {
			return Gate{Act: Run, Params: params}
		}
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(*answer.ModifiedParamsJson), &object) != nil || object == nil {
			return Gate{Act: Refuse, Reason: "the modified parameters are not a JSON object"}
		}
		return Gate{Act: Run, Params: *answer.ModifiedParamsJson}
	case hookdv1.Verdict_VERDICT_BLOCK:
		return Gate{Act: Refuse, Reason: answer.Reason}
	default:
		// This agent said that it cannot ask or suspend; any other number is from a newer hookd.
		return Gate{Act: Refuse, Reason: fmt.Sprintf("verdict %d cannot be carried out: %s", answer.Verdict, answer.Reason)}
	}
}

// Stop asks whether the agent may stop. Nothing but a block that is understood keeps it running.
func (h *Hookd) Stop(session string) Gate {
	answer, err := h.trigger(&hookdv1.TriggerRequest{Event: "Stop", SessionId: session})
	switch {
	case err != nil:
		return Gate{Act: Run}
	case answer.Halt:
		return halt(answer)
	case answer.Verdict == hookdv1.Verdict_VERDICT_BLOCK:
		return Gate{Act: Continue, Reason: answer.Reason}
	default:
		return Gate{Act: Run}
	}
}

func halt(answer *hookdv1.TriggerResponse) Gate {
	if answer.HaltReason == "" {
		return Gate{Act: Halt, Reason: answer.Reason}
	}
	return Gate{Act: Halt, Reason: answer.HaltReason}
}

// callError is a status, and whether hookd itself sent it.
type callError struct {
	*status.Status
	isOfHookd bool
}

func (e *callError) Error() string {
	return fmt.Sprintf("hookd gave no answer: %s (%s)", e.Message(), e.Code())
}

func (h *Hookd) trigger(request *hookdv1.TriggerRequest) (*hookdv1.TriggerResponse, error) {
	// What this agent can carry out; hookd turns everything else into what it can.
	request.Capabilities = &hookdv1.Capabilities{Supported: []hookdv1.Capability{
		hookdv1.Capability_CAPABILITY_BLOCK,
		hookdv1.Capability_CAPABILITY_MODIFY_PARAMS,
		hookdv1.Capability_CAPABILITY_HALT,
		hookdv1.Capability_CAPABILITY_FORCE_CONTINUE,
	}}
	ctx, cancel := context.WithTimeout(context.Background(), h.Deadline)
	defer cancel()
	var header, trailer metadata.MD
	answer, err := h.stub.Trigger(ctx, request, grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		const id = "hookd-decision-id"
		isOfHookd := len(header.Get(id)) > 0 || len(trailer.Get(id)) > 0
		return nil, &callError{status.Convert(err), isOfHookd}
	}
	return answer, nil
}

// isUnavailable tells that hookd could not be asked from a call that is itself at fault: too large, invalid,
// unauthenticated, denied. Those block whatever OnUnavailable says, so that a padded call does not buy a run.
func isUnavailable(err error) bool {
	call, isCall := err.(*callError)
	if !isCall {
		return false
	}
	switch call.Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	case codes.Internal:
		// Without hookd's id it can also be an answer that grpc-go could not read, and what is not understood blocks.
		return call.isOfHookd
	case codes.Canceled, codes.Unknown:
		// What the transport makes of a connection that closes under a call.
		return !call.isOfHookd
	case codes.ResourceExhausted:
		// Shed, which comes with the time for another try; otherwise the message was too large.
		for _, detail := range call.Details() {
			if _, isShed := detail.(*errdetails.RetryInfo); isShed {
				return true
			}
		}
	}
	return false
}
