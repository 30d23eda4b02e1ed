#include "cli/options/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/options/hvdrun_flags.h"
#include "tests/unit/cli/options/parsed.h"
#include "tests/unit/cli/options/refused.h"

namespace muster::cli::options_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Options, CompletionOffersNoPlaceholder) {
  for (const Flag& flag : hvdrun_flags().flags()) {
    for (const std::string_view placeholder : {"DIR", "FILE", "N", "NAME", "PATH", "RANK", "SHAPE", "TEXT"}) {
      EXPECT_THAT(flag.choices, Not(Contains(placeholder))) << flag.name;
    }
  }
}

TEST(ParseHvdrun, RefusesWithOneSentence) {
  expect_refused({
      {{}, "no command is given"},
      {{"-np", "4"}, "no command is given"},
      {{"-np", "4", "--"}, "no command is given"},
      {{""}, "the command is an empty word"},
      {{"-np", "0", "p"}, "-np must be a number from 1 to 1000000, not '0'"},
      {{"-np", "abc", "p"}, "-np must be a number from 1 to 1000000, not 'abc'"},
      {{"-np", "-1", "p"}, "not '-1'"},
      {{"-np", "1000001", "p"}, "not '1000001'"},
      {{"-np", "4.0", "p"}, "not '4.0'"},
      {{"-np", "99999999999999999999", "p"}, "-np must be a number"},
      {{"-np", "+4", "p"}, "not '+4'"},
      {{"-np", "--verbose", "p"}, "not '--verbose'"},
      {{"-N", "0", "p"}, "-N must be a number from 1"},
      {{"--ppn", "x", "p"}, "--ppn must be a number from 1"},
      {{"-p", "0", "p"}, "-p must be a number from 1 to 65535"},
      {{"-p", "65536", "p"}, "not '65536'"},
      {{"--signal", "USR1", "p"}, "--signal takes a signal and the time before the end, such as USR1@120 or TERM@5m"},
      {{"--signal", "USR9@1", "p"}, "not 'USR9@1'"},
      {{"--signal", "0@1", "p"}, "not '0@1'"},
      {{"--signal", "USR1@", "p"}, "not 'USR1@'"},
      {{"--signal", "USR1@-1", "p"}, "not 'USR1@-1'"},
      {{"--nodes", "3-1", "p"}, "--nodes: '3-1' is not a list of host numbers: write it as 0-3,5, counting from 0"},
      {{"--spare", "-1", "p"}, "--spare must be a number from 0"},
      {{"--health-check", "on", "p"}, "--health-check must be one of off, quick, full"},
      {{"--timeout", "-3", "p"}, "--timeout: '-3' is not a time: write it as 30, 30s, 5m, 1.5h or 500ms"},
      {{"--timeout", "0", "p"}, "--timeout must be more than 0"},
      {{"--start-timeout", "0s", "p"}, "--start-timeout must be more than 0"},
      {{"--min-hosts", "0", "p"}, "--min-hosts must be a number from 1"},
      {{"--min-hosts", "2", "--min-np", "2", "p"}, "--min-hosts: a job whose ranks live on"},
      {{"--min-hosts", "2", "-np", "1", "a", ":", "-np", "1", "b"}, "--min-hosts: a job of several programs"},
      {{"--kill-grace", "soon", "p"}, "--kill-grace: 'soon' is not a time"},
      {{"-H", "a", "--hostfile", "f", "p"}, "-H and --hostfile exclude each other"},
      {{"--hostfile", "f", "-H", "a", "p"}, "--hostfile and -H exclude each other"},
      {{"-H", "a:x", "p"}, "-H: the number of slots must be"},
      {{"-H", "::1", "p"}, "IPv6 addresses in brackets"},
      {{"--on-exit", "never", "p"}, "--on-exit must be one of nonzero-kill, any-kill, wait, not 'never'"},
      {{"--agent-link", "tcp", "p"}, "--agent-link must be one of auto, ssh, dial, not 'tcp'"},
      {{"--ssh-backend", "putty", "p"}, "--ssh-backend must be one of auto, libssh, ssh, not 'putty'"},
      {{"--contain", "docker", "p"}, "--contain must be one of auto, cgroup, pidns, subreaper, not 'docker'"},
      {{"--stage", ":x", "p"}, "--stage takes a path, or two as SRC:DST, not ':x'"},
      {{"--stage", "x:", "p"}, "--stage takes a path, or two as SRC:DST"},
      {{"-x", "=1", "p"}, "-x: '' is not the name of an environment variable"},
      {{"-x", "A B=1", "p"}, "is not the name of an environment variable"},
      {{"-x", "A\nB", "p"}, "'A\\x0aB' is not the name"},
      {{"--network-interfaces", "eth0,,ib0", "p"}, "--network-interfaces: '' is not the name of a network interface"},
      {{"--network-interface", "eth 0", "p"}, "'eth 0' is not the name"},
      {{"--network-interfaces", "a-name-that-no-kernel-takes", "p"}, "is not the name of a network interface"},
      {{"--network", "eth0", "p"}, "--network: 'eth0' is not a network"},
      {{"--fusion-threshold-mb", "-1", "p"}, "--fusion-threshold-mb must be a number from 0"},
      {{"--autotune-gaussian-process-noise", "1.5", "p"}, "must be a number from 0 to 1, not '1.5'"},
      {{"--log-level", "LOUD", "p"},
       "--log-level must be one of TRACE, DEBUG, INFO, WARNING, ERROR, FATAL, not 'LOUD'"},
      {{"--blacklist-cooldown-range", "0", "5", "p"}, "--blacklist-cooldown-range takes two numbers"},
      {{"--blacklist-cooldown-range", "6", "5", "p"}, "the lower one first, from 1 to 3600 seconds, not '6 5'"},
      {{"-np", "1", "--min-np", "1", "a", ":", "-np", "1", "b"},
       "--min-np: a job of several programs cannot be elastic"},
      {{"-np", "1", "--spares", "n9", "a", ":", "-np", "1", "b"},
       "--on-failure replace and shrink: a job of several programs keeps its hosts"},
      {{"--min-np", "0", "p"}, "--min-np must be a number from 1"},
      {{"--mpi", "p"}, "--mpi: hvdrun does not support Horovod's controller mpi yet; run the program with --gloo"},
      {{"--jsrun", "p"}, "--jsrun: hvdrun does not support Horovod's controller jsrun yet"},
      {{"--host-discovery-script", "s", "-H", "a", "p"}, "exclude each other"},
      {{"--verbose", "--quiet", "p"}, "--verbose and --quiet exclude each other"},
      {{"--bind-to", "gpu", "p"},
       "--bind-to: 'gpu' is not one of share, none, core, numa, socket, depth, list:CPUS:CPUS"},
      {{"--ulimit", "nofiles=1", "p"}, "--ulimit: unknown limit 'nofiles'; did you mean 'nofile'?"},
      {{"--ulimit", "nofile", "p"}, "--ulimit: 'nofile' is not NAME=VALUE"},
      {{"--gpu-bind", "two", "p"}, "--gpu-bind must be one of order, one, tile, none, not 'two'"},
      {{"--stdin", "first", "p"}, "--stdin must be a rank, auto, all or none, not 'first'"},
  });
}

TEST(ParseHvdrun, VersionAndHelpWinOverTheRest) {
  for (const Words& words : {Words{"-v"}, Words{"--version"}, Words{"-np", "0", "--version", "--no-such", "p"}}) {
    const ParsedHvdrun parsed = parse(words);
    EXPECT_EQ(parsed.exit_code, 0);
    EXPECT_EQ(parsed.text, "hvdrun " MUSTER_VERSION " (0123456789abcdef), horovodrun 0.28.1 flags\n");
  }
  for (const Words& words : {Words{"-h"}, Words{"--help"}, Words{"-np", "4", "--help"}}) {
    const ParsedHvdrun parsed = parse(words);
    EXPECT_EQ(parsed.exit_code, 0);
    EXPECT_THAT(parsed.text, StartsWith("Usage: hvdrun"));
    EXPECT_TRUE(parsed.is_help);
  }
  EXPECT_FALSE(parse({"prog", "--help"}).exit_code);
}

TEST(ParseHvdrun, StartTimeoutComesFromTheEnvironmentUnlessGiven) {
  base::Environment environment;
  environment.set("HOROVOD_START_TIMEOUT", "77");
  EXPECT_EQ(parse({"p"}, environment).options.request.job.start_timeout, std::chrono::seconds(77));
  EXPECT_EQ(parse({"--start-timeout", "5", "p"}, environment).options.request.job.start_timeout,
            std::chrono::seconds(5));
  environment.set("HOROVOD_START_TIMEOUT", "");
  EXPECT_EQ(parse({"p"}, environment).options.request.job.start_timeout, std::chrono::seconds(30));
  for (const char* bad : {"x", "0", "-1"}) {
    environment.set("HOROVOD_START_TIMEOUT", bad);
    const ParsedHvdrun parsed = parse({"p"}, environment);
    EXPECT_EQ(parsed.exit_code, 2) << bad;
    EXPECT_THAT(parsed.text, StartsWith("hvdrun: HOROVOD_START_TIMEOUT"));
  }
}

TEST(ParseHvdrun, CheckBuildNeedsNoCommand) {
  for (const Words& words : {Words{"-cb"}, Words{"--check-build", "p"}}) {
    const ParsedHvdrun parsed = parse(words);
    EXPECT_EQ(parsed.exit_code, 0);
    EXPECT_THAT(parsed.text, StartsWith("Muster v"));
  }
  EXPECT_THAT(parse({"-cb", "--verbose"}).text, StartsWith("\nMuster v"));
}

TEST(ParseHvdrun, SelfTestHasItsOwnCommand) {
  const ParsedHvdrun parsed = parse({"--self-test", "-np", "2"});
  EXPECT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_THAT(parsed.options.request.job.command, ElementsAre(testing::EndsWith("/muster_perf"), "--self-test"));
  EXPECT_EQ(parse({"--self-test", "p"}).exit_code, 2);
}

TEST(ParseHvdrun, ExpandIsForEveryWordOfTheCommand) {
  EXPECT_THAT(parse({"--expand", "a", "b"}).options.request.job.expand, ElementsAre(0, 1));
  EXPECT_THAT(parse({"a", "{rank}"}).options.request.job.expand, ElementsAre());
}

TEST(ParseHvdrun, SendsInputToRank0ByDefault) {
  using model::InputTo;
  EXPECT_EQ(parse({"p"}).options.request.job.input, model::JobInput{});
  EXPECT_EQ(parse({"--stdin", "auto", "p"}).options.request.job.input, model::JobInput{});
  EXPECT_EQ(parse({"--stdin", "none", "p"}).options.request.job.input, model::JobInput{InputTo::kNone});
  EXPECT_EQ(parse({"--stdin", "3", "p"}).options.request.job.input, (model::JobInput{InputTo::kRank, 3}));
  EXPECT_EQ(parse({"--stdin", "all", "p"}).options.request.job.input, model::JobInput{InputTo::kAll});
  EXPECT_EQ(parse({"--pty", "--stdin", "0", "p"}).options.request.job.input,
            (model::JobInput{InputTo::kRank, 0, true}));
  base::Environment environment;
  environment.set("MUSTER_STDIN", "none");
  EXPECT_EQ(parse({"p"}, environment).options.request.job.input, model::JobInput{InputTo::kNone});
}

TEST(ParseHvdrun, AnswersOptionsForNewHostsByOneNote) {
  const ParsedHvdrun parsed = parse({"-np", "4", "--max-np", "6", "--mpi-args", "x", "--slots-per-host", "3", "p"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_THAT(parsed.options.output.notes,
              ElementsAre(StartsWith("--max-np, --slots-per-host: used only when the job starts; "),
                          StartsWith("--mpi-args: ")));
  EXPECT_FALSE(parsed.options.request.job.live.has_value());
}

TEST(ParseHvdrun, LetsANamedVariableWinOverATuningOption) {
  const ParsedHvdrun parsed = parse({"-x", "HOROVOD_CYCLE_TIME=7", "--cycle-time-ms", "3", "p"});
  EXPECT_THAT(parsed.options.request.job.environment.named,
              ElementsAre("HOROVOD_CYCLE_TIME=3.0", "HOROVOD_CYCLE_TIME=7"));  // the last of a name counts
}

TEST(ParseHvdrun, VariablesOfTheEnvironmentSetOptions) {
  base::Environment environment;
  environment.set("MUSTER_NUM_PROC", "4");
  environment.set("MUSTER_VERBOSE", "1");
  environment.set("MUSTER_HOSTFILE", "f");
  EXPECT_EQ(show(parse({"p"}, environment)), "np=4 hostfile=f verbose");
  EXPECT_EQ(show(parse({"-np", "2", "-H", "a", "--no-verbose", "p"}, environment)), "np=2 host=a:-1");
  environment.set("MUSTER_NUM_PROC", "many");
  EXPECT_THAT(parse({"p"}, environment).text, StartsWith("hvdrun: MUSTER_NUM_PROC must be a number from 1"));
}

}  // namespace
}  // namespace muster::cli::options_test
