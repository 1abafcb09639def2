import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;

/**
 * An agent's loop around one tool: `Agent SERVICE-CONFIG ADDRESS block|allow MILLISECONDS`. On standard input stands what the
 * model asks for, one call a line: {"command":"ls"}.
 */
final class Agent {
  public static void main(String[] args) throws Exception {
    // Said, not assumed: whether the agent goes on where hookd cannot be asked.
    boolean goesOn = args[2].equals("allow");
    Duration deadline = Duration.ofMillis(Long.parseLong(args[3]));
    try (Hookd hookd = new Hookd(args[1], Path.of(args[0]), deadline, tool -> goesOn)) {
      BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String call = calls.readLine(); call != null; call = calls.readLine()) {
        Hookd.Gate gate = hookd.preToolUse("session-1", "bash", call);
        if (gate instanceof Hookd.Run run) {
          run(run.params());
        } else if (gate instanceof Hookd.Refuse refuse) {
          System.out.println("not run: " + refuse.reason());
        } else if (gate instanceof Hookd.Halt halt) {
          fail(halt.reason());
        }
      }
      Hookd.Gate gate = hookd.stop("session-1");
      if (gate instanceof Hookd.Continue next) {
        System.out.println("goes on: " + next.reason()); // a real agent's next turn
      } else if (gate instanceof Hookd.Halt halt) {
        fail(halt.reason());
      }
    }
  }

  private static void run(String params) throws IOException, InterruptedException {
    String command;
    try {
      command = JsonParser.parseString(params).getAsJsonObject().get("command").getAsString();
    } catch (JsonParseException | IllegalStateException | NullPointerException error) {
      System.out.println("not run: there is no command in " + params);
      return;
    }
    ProcessBuilder shell = new ProcessBuilder("sh", "-c", command).inheritIO();
    // The agent's own input is not the command's.
    shell.redirectInput(new File("/dev/null")).start().waitFor();
  }

  private static void fail(String reason) {
    System.err.println(reason);
    System.exit(1);
  }
}
