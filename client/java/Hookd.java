import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonParseException;
import com.google.rpc.RetryInfo;
import com.hookd.v1.Capabilities;
import com.hookd.v1.Capability;
import com.hookd.v1.HookServiceGrpc;
import com.hookd.v1.ToolCall;
import com.hookd.v1.TriggerRequest;
import com.hookd.v1.TriggerResponse;
import com.hookd.v1.Verdict;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** Asks hookd, with a deadline on every call. */
final class Hookd implements AutoCloseable {
  /** The answer to one question. There is no exception to forget: what happens without an answer is decided in here. */
  sealed interface Gate permits Run, Refuse, Continue, Halt {}

  /** Run the tool with these parameters, a JSON object with all its digits; or stop, where the agent wanted to. */
  record Run(String params) implements Gate {}

  /** The tool does not run, and the model gets the reason. */
  record Refuse(String reason) implements Gate {}

  /** The agent wanted to stop and goes on: the reason is its next instruction. */
  record Continue(String reason) implements Gate {}

  /** Stop the agent. */
  record Halt(String reason) implements Gate {}

  /** What this agent can carry out; hookd turns everything else into what it can. */
  private static final Capabilities CAPABILITIES =
      Capabilities.newBuilder()
          .addSupported(Capability.CAPABILITY_BLOCK)
          .addSupported(Capability.CAPABILITY_MODIFY_PARAMS)
          .addSupported(Capability.CAPABILITY_HALT)
          .addSupported(Capability.CAPABILITY_FORCE_CONTINUE)
          .build();

  private static final Metadata.Key<String> DECISION_ID =
      Metadata.Key.of("hookd-decision-id", Metadata.ASCII_STRING_MARSHALLER);

  private final ManagedChannel channel;
  private final Duration deadline;
  private final Predicate<String> onUnavailable;

  /**
   * Connects when it is first needed. `onUnavailable` says what happens where hookd cannot be asked: whether the tool of this
   * name may run then. There is no default on purpose.
   */
  Hookd(String target, Path serviceConfig, Duration deadline, Predicate<String> onUnavailable) throws IOException {
    // Calls are spread over replicas and never retried. gRPC itself sends a call again that no server saw; what hookd
    // answered, a shed call too, is an answer.
    @SuppressWarnings("unchecked")
    Map<String, ?> config = new Gson().fromJson(Files.readString(serviceConfig), Map.class);
    this.channel =
        ManagedChannelBuilder.forTarget(target)
            .defaultServiceConfig(config)
            // For another machine leave this out: TLS is the default.
            .usePlaintext()
            // hookd is asked directly, whatever the environment says of proxies.
            .proxyDetector(address -> null)
            .build();
    this.deadline = deadline;
    this.onUnavailable = onUnavailable;
  }

  /** Asks whether a tool may run with these parameters, a JSON object as the model wrote it. */
  Gate preToolUse(String session, String tool, String params) {
    TriggerRequest.Builder request =
        TriggerRequest.newBuilder()
            .setEvent("PreToolUse")
            .setSessionId(session)
            .setToolCall(ToolCall.newBuilder().setTool(tool).setParamsJson(params));
    TriggerResponse answer;
    try {
      answer = trigger(request);
    } catch (StatusRuntimeException error) {
      return isUnavailable(error) && onUnavailable.test(tool)
          ? new Run(params)
          : new Refuse("hookd gave no answer: " + error.getMessage());
    }
    if (answer.getHalt()) {
      return halt(answer);
    }
    return switch (answer.getVerdict()) {
      case VERDICT_NONE, VERDICT_ALLOW -> answer.hasModifiedParamsJson() ? rewritten(answer.getModifiedParamsJson()) : new Run(params);
      case VERDICT_BLOCK -> new Refuse(answer.getReason());
      // This agent said that it cannot ask or suspend; any other number is from a newer hookd.
      default -> new Refuse("verdict " + answer.getVerdictValue() + " cannot be carried out: " + answer.getReason());
    };
  }

  /** Asks whether the agent may stop. Nothing but a block that is understood keeps it running. */
  Gate stop(String session) {
    TriggerResponse answer;
    try {
      answer = trigger(TriggerRequest.newBuilder().setEvent("Stop").setSessionId(session));
    } catch (StatusRuntimeException error) {
      return new Run("");
    }
    if (answer.getHalt()) {
      return halt(answer);
    }
    return answer.getVerdict() == Verdict.VERDICT_BLOCK ? new Continue(answer.getReason()) : new Run("");
  }

  @Override
  public void close() {
    channel.shutdownNow();
  }

  private TriggerResponse trigger(TriggerRequest.Builder request) {
    try {
      return HookServiceGrpc.newBlockingStub(channel)
          .withDeadlineAfter(deadline.toMillis(), TimeUnit.MILLISECONDS)
          .trigger(request.setCapabilities(CAPABILITIES).build());
    } catch (StatusRuntimeException error) {
      // A hookd that is back is asked at once: gRPC's own pause grows to two minutes.
      channel.resetConnectBackoff();
      throw error;
    }
  }

  private static Gate rewritten(String params) {
    try {
      JsonElement value = new Gson().fromJson(params, JsonElement.class);
      if (value != null && value.isJsonObject()) {
        return new Run(params);
      }
    } catch (JsonParseException error) {
      // As any other value that is not an object.
    }
    return new Refuse("the modified parameters are not a JSON object");
  }

  private static Gate halt(TriggerResponse answer) {
    return new Halt(answer.getHaltReason().isEmpty() ? answer.getReason() : answer.getHaltReason());
  }

  /**
   * Tells that hookd could not be asked from a call that is itself at fault: too large, invalid, unauthenticated, denied.
   * Those block whatever `onUnavailable` says, so that a padded call does not buy a run.
   */
  private static boolean isUnavailable(StatusRuntimeException error) {
    Metadata trailers = error.getTrailers();
    boolean isOfHookd = trailers != null && trailers.containsKey(DECISION_ID);
    return switch (error.getStatus().getCode()) {
      case UNAVAILABLE, DEADLINE_EXCEEDED -> true;
      // Without hookd's id it can also be an answer that grpc-java could not read, and what is not understood blocks.
      case INTERNAL -> isOfHookd;
      // What the transport makes of a connection that closes under a call; grpc-java names a message that it could not read.
      case CANCELLED, UNKNOWN -> !isOfHookd && error.getStatus().getCause() == null;
      // Shed, which comes with the time for another try; otherwise the message was too large.
      case RESOURCE_EXHAUSTED -> isShed(error);
      default -> false;
    };
  }

  private static boolean isShed(StatusRuntimeException error) {
    com.google.rpc.Status status = StatusProto.fromThrowable(error);
    return status != null && status.getDetailsList().stream().anyMatch(detail -> detail.is(RetryInfo.class));
  }
}
