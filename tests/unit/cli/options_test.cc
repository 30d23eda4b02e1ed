#include "cli/options.h"

#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/flags.h"

namespace muster::cli {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

ParsedHvdrun parse(const Words& words) {
  return parse_hvdrun(words, {}, "0123456789abcdef");
}

// The values of an accepted command line that are not the defaults, in the order of the help.
std::string show(const ParsedHvdrun& parsed) {
  const model::JobSpec& job = parsed.options.job;
  const auto& bootstrap = parsed.options.bootstrap;
  const HvdrunOptions plain;
  std::string text;
  const auto add = [&](const std::string& piece) { text += (text.empty() ? "" : " ") + piece; };
  if (job.placement.np != 0) add(fmt::format("np={}", job.placement.np));
  if (job.placement.ranks_per_node != 0) add(fmt::format("per_node={}", job.placement.ranks_per_node));
  if (job.placement.oversubscribe) add("oversubscribe");
  for (const auto& host : job.placement.hosts) add(fmt::format("host={}:{}", host.name, host.slots.value_or(-1)));
  if (!parsed.options.hostfile.empty()) add("hostfile=" + parsed.options.hostfile);
  if (bootstrap.default_port != 0) add(fmt::format("port={}", bootstrap.default_port));
  if (!bootstrap.identity_file.empty()) add("identity=" + bootstrap.identity_file);
  if (bootstrap.backend == launcherd::SshBackend::kLibssh) add("backend=libssh");
  if (bootstrap.backend == launcherd::SshBackend::kSsh) add("backend=ssh");
  if (parsed.options.launch.agent_link != "auto") add("link=" + parsed.options.launch.agent_link);
  if (!bootstrap.agent_dir.empty()) add("agent_dir=" + bootstrap.agent_dir);
  for (const auto& named : job.environment.named) add("env=" + named);
  if (job.environment.only_named) add("only_named");
  if (!job.workdir.empty()) add("wdir=" + job.workdir);
  if (!job.output_dir.empty()) add("output=" + job.output_dir);
  if (job.prefix_timestamp) add("timestamp");
  if (parsed.options.launch.verbose) add("verbose");
  if (job.start_timeout != plain.job.start_timeout) add(fmt::format("start={}ms", job.start_timeout.count()));
  if (job.timeout) add(fmt::format("timeout={}ms", job.timeout->count()));
  if (job.kill_grace != plain.job.kill_grace) add(fmt::format("grace={}ms", job.kill_grace.count()));
  if (job.on_exit == model::OnExit::kAnyKill) add("any-kill");
  if (job.on_exit == model::OnExit::kWait) add("wait");
  if (parsed.options.launch.contain != "auto") add("contain=" + parsed.options.launch.contain);
  return text;
}

struct Accepted {
  Words words;  // before the command "prog"
  std::string shown;
};

// Every spelling of every flag, with its value as the next word and, where that exists, attached.
const std::vector<Accepted>& accepted() {
  static const std::vector<Accepted> kTable = {
      {{}, ""},
      {{"-np", "4"}, "np=4"},
      {{"-np=4"}, "np=4"},
      {{"-n", "4"}, "np=4"},
      {{"-n4"}, "np=4"},
      {{"-n=4"}, "np=4"},
      {{"--num-proc", "4"}, "np=4"},
      {{"--num-proc=4"}, "np=4"},
      {{"-N", "2"}, "per_node=2"},
      {{"-N2"}, "per_node=2"},
      {{"--ranks-per-node", "2"}, "per_node=2"},
      {{"--ranks-per-node=2"}, "per_node=2"},
      {{"--ppn", "2"}, "per_node=2"},
      {{"--ppn=2"}, "per_node=2"},
      {{"-ppn", "2"}, "per_node=2"},
      {{"--npernode", "2"}, "per_node=2"},
      {{"-npernode", "2"}, "per_node=2"},
      {{"--oversubscribe"}, "oversubscribe"},
      {{"-H", "a:1,b"}, "host=a:1 host=b:-1"},
      {{"-H=a"}, "host=a:-1"},
      {{"--hosts", "a"}, "host=a:-1"},
      {{"--hosts=a"}, "host=a:-1"},
      {{"--host", "a"}, "host=a:-1"},
      {{"-host", "a"}, "host=a:-1"},
      {{"-H", "[::1]"}, "host=::1:-1"},
      {{"-H", "n[1-2]:3"}, "host=n1:3 host=n2:3"},
      {{"-H", "[1-2]"}, "host=1:-1 host=2:-1"},
      {{"-hostfile", "f"}, "hostfile=f"},
      {{"--hostfile", "f"}, "hostfile=f"},
      {{"--hostfile=f"}, "hostfile=f"},
      {{"-p", "2222"}, "port=2222"},
      {{"-p2222"}, "port=2222"},
      {{"--ssh-port", "2222"}, "port=2222"},
      {{"--ssh-port=2222"}, "port=2222"},
      {{"-i", "key"}, "identity=key"},
      {{"--ssh-identity-file", "key"}, "identity=key"},
      {{"--ssh-identity-file=k=y"}, "identity=k=y"},
      {{"--ssh-backend", "auto"}, ""},
      {{"--ssh-backend", "libssh"}, "backend=libssh"},
      {{"--ssh-backend=ssh"}, "backend=ssh"},
      {{"--agent-link", "auto"}, ""},
      {{"--agent-link", "ssh"}, "link=ssh"},
      {{"--agent-link=dial"}, "link=dial"},
      {{"--agent-dir", "/opt/m"}, "agent_dir=/opt/m"},
      {{"--agent-dir=/opt/m"}, "agent_dir=/opt/m"},
      {{"--env", "A"}, "env=A"},
      {{"-x", "A=b c"}, "env=A=b c"},
      {{"--env=A=b=c"}, "env=A=b=c"},
      {{"-x", "A=", "-x", "B", "--env", "A=[x,y]"}, "env=A= env=B env=A=[x,y]"},
      {{"-x", "A=line\nline"}, "env=A=line\nline"},
      {{"-x", "A=-np"}, "env=A=-np"},
      {{"--env-none"}, "only_named"},
      {{"--wdir", "/data"}, "wdir=/data"},
      {{"--wdir=rel"}, "wdir=rel"},
      {{"--wdir", "-odd"}, "wdir=-odd"},
      {{"--output-filename", "logs"}, "output=logs"},
      {{"--output-filename=logs"}, "output=logs"},
      {{"-prefix-timestamp"}, "timestamp"},
      {{"--prefix-output-with-timestamp"}, "timestamp"},
      {{"--verbose"}, "verbose"},
      {{"--start-timeout", "60"}, "start=60000ms"},
      {{"--start-timeout=1m"}, "start=60000ms"},
      {{"--timeout", "3600"}, "timeout=3600000ms"},
      {{"--timeout=1.5h"}, "timeout=5400000ms"},
      {{"--kill-grace", "500ms"}, "grace=500ms"},
      {{"--kill-grace=0"}, "grace=0ms"},
      {{"--on-exit", "nonzero-kill"}, ""},
      {{"--on-exit", "any-kill"}, "any-kill"},
      {{"--on-exit=wait"}, "wait"},
      {{"--contain", "auto"}, ""},
      {{"--contain", "cgroup"}, "contain=cgroup"},
      {{"--contain=pidns"}, "contain=pidns"},
      {{"--contain", "subreaper"}, "contain=subreaper"},
      // the last one counts
      {{"-np", "2", "-np", "4"}, "np=4"},
      {{"-H", "a", "-H", "b"}, "host=b:-1"},
      {{"--verbose", "--verbose"}, "verbose"},
      {{"--on-exit", "wait", "--on-exit", "nonzero-kill"}, ""},
      // the line
      {{"-np", "8", "--hostfile", "hosts", "-p", "2222", "-i", "key", "--output-filename", "logs", "--verbose",
        "--start-timeout", "60", "--timeout", "3600", "--kill-grace", "5"},
       "np=8 hostfile=hosts port=2222 identity=key output=logs verbose start=60000ms timeout=3600000ms"},
  };
  return kTable;
}

TEST(ParseHvdrun, AcceptsEveryFlagInEverySpelling) {
  for (const Accepted& given : accepted()) {
    Words words = given.words;
    words.emplace_back("prog");
    const ParsedHvdrun parsed = parse(words);
    ASSERT_FALSE(parsed.exit_code) << base::join(words, " ") << ": " << parsed.text;
    EXPECT_EQ(show(parsed), given.shown) << base::join(words, " ");
    EXPECT_THAT(parsed.options.job.command, ElementsAre("prog"));
  }
}

TEST(ParseHvdrun, NoSpellingIsMissingFromTheTable) {
  std::set<std::string> tried = {"-v", "--version", "-h", "--help"};
  for (const Accepted& given : accepted()) {
    for (const std::string& word : given.words) tried.insert(word.substr(0, word.find('=')));
  }
  for (const Flag& flag : all_flags()) {
    if (!flag.is_active) continue;
    for (const auto spelling : flag.spellings) EXPECT_TRUE(tried.contains(std::string(spelling))) << spelling;
  }
}

TEST(Flags, SpellingsAreUniqueAndNamesAmongThem) {
  std::set<std::string_view> seen;
  for (const Flag& flag : all_flags()) {
    for (const auto spelling : flag.spellings) EXPECT_TRUE(seen.insert(spelling).second) << spelling;
    EXPECT_EQ(find_flag(fmt::format("--{}", flag.name)), &flag) << flag.name;
  }
  EXPECT_EQ(find_flag("np"), nullptr);
}

struct Boundary {
  Words words;
  Words command;
  std::string shown;
};

TEST(ParseHvdrun, CommandBeginsAtTheFirstWordThatIsNoOption) {
  const std::vector<Boundary> table = {
      {{"-np", "2", "python3", "-u", "x.py", "-np", "3"}, {"python3", "-u", "x.py", "-np", "3"}, "np=2"},
      {{"-np", "2", "--", "-weird", "--help"}, {"-weird", "--help"}, "np=2"},
      {{"--", "prog", "--", "--version"}, {"prog", "--", "--version"}, ""},
      {{"prog", "--"}, {"prog", "--"}, ""},
      {{"--verbose", "prog", "--verbose"}, {"prog", "--verbose"}, "verbose"},
      {{"--verbose", "true"}, {"true"}, "verbose"},  // a flag takes no value
      {{"-np", "2", "-"}, {"-"}, "np=2"},
      {{"prog", "", "a b", "ü\n", "--x=\xff"}, {"prog", "", "a b", "ü\n", "--x=\xff"}, ""},
      {{"-x", "A", "prog", "-x", "B"}, {"prog", "-x", "B"}, "env=A"},
      {{"--wdir", "--", "prog"}, {"prog"}, "wdir=--"},  // a value is a value
      {{"prog", "-H", "not:a:host"}, {"prog", "-H", "not:a:host"}, ""},
      {{"-np=2", "./a=b"}, {"./a=b"}, "np=2"},
  };
  for (const Boundary& given : table) {
    const ParsedHvdrun parsed = parse(given.words);
    ASSERT_FALSE(parsed.exit_code) << base::join(given.words, " ") << ": " << parsed.text;
    EXPECT_EQ(parsed.options.job.command, given.command);
    EXPECT_EQ(show(parsed), given.shown);
  }
}

struct Refused {
  Words words;
  std::string part;
};

TEST(ParseHvdrun, RefusesWithOneSentence) {
  const std::vector<Refused> table = {
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
      {{"-np"}, "-np needs a value: -np N"},
      {{"-np", "4", "--wdir"}, "--wdir needs a value: --wdir DIR"},
      {{"--num-proc=", "p"}, "--num-proc needs a value that is not empty"},
      {{"--wdir", "", "p"}, "--wdir needs a value that is not empty"},
      {{"-np", "--verbose", "p"}, "not '--verbose'"},
      {{"-N", "0", "p"}, "-N must be a number from 1"},
      {{"--ppn", "x", "p"}, "-N must be a number from 1"},
      {{"-p", "0", "p"}, "-p must be a number from 1 to 65535"},
      {{"-p", "65536", "p"}, "not '65536'"},
      {{"--timeout", "-3", "p"}, "--timeout: '-3' is not a time: write it as 30, 30s, 5m, 1.5h or 500ms"},
      {{"--timeout", "0", "p"}, "--timeout must be more than no time at all"},
      {{"--start-timeout", "0s", "p"}, "--start-timeout must be more than no time"},
      {{"--kill-grace", "soon", "p"}, "--kill-grace: 'soon' is not a time"},
      {{"-H", "a", "--hostfile", "f", "p"}, "-H and --hostfile exclude each other"},
      {{"--hostfile", "f", "-H", "a", "p"}, "-H and --hostfile exclude each other"},
      {{"-H", "a:x", "p"}, "-H: the number of slots must be"},
      {{"-H", "::1", "p"}, "IPv6 addresses in brackets"},
      {{"--on-exit", "never", "p"}, "--on-exit must be one of nonzero-kill, any-kill, wait, not 'never'"},
      {{"--agent-link", "tcp", "p"}, "--agent-link must be one of auto, ssh, dial, not 'tcp'"},
      {{"--ssh-backend", "putty", "p"}, "--ssh-backend must be one of auto, libssh, ssh, not 'putty'"},
      {{"--contain", "docker", "p"}, "--contain must be one of auto, cgroup, pidns, subreaper, not 'docker'"},
      {{"-x", "=1", "p"}, "--env: '' is not the name of an environment variable"},
      {{"-x", "A B=1", "p"}, "is not the name of an environment variable"},
      {{"-x", "A\nB", "p"}, "'A\\x0aB' is not the name"},
      {{"--verbose=1", "p"}, "--verbose takes no value"},
      {{"-npp", "4", "p"}, "unknown option -npp, did you mean -np?"},
      {{"--host-file", "f", "p"}, "unknown option --host-file, did you mean --hostfile?"},
      {{"--num_proc=4", "p"}, "unknown option --num_proc, did you mean --num-proc?"},
      {{"--ssh-prot", "1", "p"}, "unknown option --ssh-prot, did you mean --ssh-port?"},
      {{"-iface", "eth0", "p"}, "unknown option -iface"},
      {{"-mca", "btl", "tcp", "p"}, "unknown option -mca"},
      {{"--completely-else", "p"}, "unknown option --completely-else (hvdrun --help lists all options)"},
      {{"--\x1b[31m", "p"}, "unknown option --\\x1b[31m"},
      {{"-np4", "p"}, "unknown option -np4, did you mean -np?"},
  };
  for (const Refused& given : table) {
    const ParsedHvdrun parsed = parse(given.words);
    ASSERT_EQ(parsed.exit_code, 2) << base::join(given.words, " ");
    EXPECT_THAT(parsed.text, StartsWith("hvdrun: "));
    EXPECT_THAT(parsed.text, HasSubstr(given.part));
    EXPECT_EQ(parsed.text.find('\n'), parsed.text.size() - 1) << "more than one line: " << parsed.text;
  }
}

// horovodrun 0.28.1's options that are not in this version: refused by name, never ignored, whatever follows them.
TEST(ParseHvdrun, RefusesHorovodrunsOtherOptionsByName) {
  for (const std::string& line : Words{"-cb",
                                       "--check-build",
                                       "--disable-cache",
                                       "--network-interfaces a,b",
                                       "--network-interface a",
                                       "--config-file f",
                                       "--host-discovery-script s",
                                       "--gloo",
                                       "--mpi",
                                       "--jsrun",
                                       "--min-np 1",
                                       "--min-num-proc 1",
                                       "--max-np 1",
                                       "--max-num-proc 1",
                                       "--slots-per-host 1",
                                       "--elastic-timeout 1",
                                       "--reset-limit 1",
                                       "--blacklist-cooldown-range 1 2",
                                       "--fusion-threshold-mb 1",
                                       "--cycle-time-ms 1",
                                       "--cache-capacity 1",
                                       "--hierarchical-allreduce",
                                       "--no-hierarchical-allreduce",
                                       "--hierarchical-allgather",
                                       "--no-hierarchical-allgather",
                                       "--torus-allreduce",
                                       "--no-torus-allreduce",
                                       "--autotune",
                                       "--no-autotune",
                                       "--autotune-log-file f",
                                       "--autotune-warmup-samples 1",
                                       "--autotune-steps-per-sample 1",
                                       "--autotune-bayes-opt-max-samples 1",
                                       "--autotune-gaussian-process-noise 0.5",
                                       "--timeline-filename f",
                                       "--timeline-mark-cycles",
                                       "--no-timeline-mark-cycles",
                                       "--stall-check",
                                       "--no-stall-check",
                                       "--stall-check-warning-time-seconds 1",
                                       "--stall-check-shutdown-time-seconds 1",
                                       "--mpi-threads-disable",
                                       "--no-mpi-threads-disable",
                                       "--mpi-args=--bind-to none",
                                       "--tcp",
                                       "--binding-args=-x",
                                       "--num-nccl-streams 1",
                                       "--thread-affinity 1",
                                       "--gloo-timeout-seconds 1",
                                       "--log-level INFO",
                                       "--log-with-timestamp",
                                       "--log-without-timestamp",
                                       "--log-hide-timestamp"}) {
    Words words = {"-np", "2"};
    for (const auto word : base::split(line, ' ')) words.emplace_back(word);
    words.emplace_back("prog");
    const std::string spelling = words[2].substr(0, words[2].find('='));
    const ParsedHvdrun parsed = parse(words);
    ASSERT_EQ(parsed.exit_code, 2) << line;
    EXPECT_EQ(parsed.text, fmt::format("hvdrun: horovodrun's option {} is known but does nothing in this version of "
                                       "hvdrun: leave it out\n",
                                       spelling));
    const Flag* flag = find_flag(spelling);
    ASSERT_NE(flag, nullptr);
    const bool has_attached = words[2].size() != spelling.size();
    EXPECT_EQ(static_cast<std::size_t>(flag->values), words.size() - 4 - (has_attached ? words.size() - 5 : 0)) << line;
  }
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
  }
  EXPECT_FALSE(parse({"prog", "--help"}).exit_code);
}

TEST(ParseHvdrun, StartTimeoutComesFromTheEnvironmentUnlessGiven) {
  base::Environment environment;
  environment.set("HOROVOD_START_TIMEOUT", "77");
  EXPECT_EQ(parse_hvdrun({"p"}, environment, "b").options.job.start_timeout, std::chrono::seconds(77));
  EXPECT_EQ(parse_hvdrun({"--start-timeout", "5", "p"}, environment, "b").options.job.start_timeout,
            std::chrono::seconds(5));
  environment.set("HOROVOD_START_TIMEOUT", "");
  EXPECT_EQ(parse_hvdrun({"p"}, environment, "b").options.job.start_timeout, std::chrono::seconds(30));
  for (const char* bad : {"x", "0", "-1"}) {
    environment.set("HOROVOD_START_TIMEOUT", bad);
    const ParsedHvdrun parsed = parse_hvdrun({"p"}, environment, "b");
    EXPECT_EQ(parsed.exit_code, 2) << bad;
    EXPECT_THAT(parsed.text, StartsWith("hvdrun: HOROVOD_START_TIMEOUT"));
  }
}

TEST(ParseDuration, ReadsUnits) {
  const std::vector<std::pair<std::string, long>> table = {{"30", 30'000},
                                                           {"30s", 30'000},
                                                           {"5m", 300'000},
                                                           {"1.5h", 5'400'000},
                                                           {"500ms", 500},
                                                           {"0", 0},
                                                           {"0.25", 250},
                                                           {"0.1s", 100},
                                                           {"1.001s", 1001},
                                                           {"0.0001s", 1},
                                                           {"0.3m", 18'000},
                                                           {"2.5ms", 3},
                                                           {"007s", 7'000},
                                                           {"0.123456789012345s", 124},
                                                           {"87840h", 87'840L * 3'600'000}};
  for (const auto& [text, expected] : table) {
    const auto read = parse_duration(text);
    ASSERT_TRUE(read.ok()) << text << ": " << read.status();
    EXPECT_EQ(read->count(), expected) << text;
  }
}

TEST(ParseDuration, RefusesTheRest) {
  for (const char* text : {"",
                           "-3",
                           "s",
                           "ms",
                           "1.",
                           ".",
                           ".5",
                           "1.2.3",
                           "5 m",
                           " 5",
                           "5x",
                           "5min",
                           "5M",
                           "1e3",
                           "inf",
                           "nan",
                           "0x10",
                           "+5",
                           "87841h",
                           "99999999999999999999",
                           "9223372036854775807h",
                           "1,5s"}) {
    EXPECT_FALSE(parse_duration(text).ok()) << text;
  }
}

}  // namespace
}  // namespace muster::cli
