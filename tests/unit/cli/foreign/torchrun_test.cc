#include "cli/foreign/torchrun.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/hosts/job_hosts.h"
#include "tests/unit/cli/options/parsed.h"

namespace muster::cli::torchrun_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

ParsedHvdrun torch(const Words& words, const base::Environment& environment = {},
                   const std::string& verb = "torchrun") {
  return parse_torchrun(verb, words, environment, {.build_id = "b", .system_config = "/nowhere/config.yaml"});
}

// With INSERT for the program that asks the rank's torch how it spells --local-rank.
std::string command_of(const ParsedHvdrun& parsed) {
  if (parsed.exit_code) return parsed.text;
  Words command = parsed.options.request.job.command;
  for (std::string& word : command) {
    if (word.starts_with("import importlib.util")) word = "INSERT";
  }
  return base::join(command, " ");
}

struct Accepted {
  Words words;  // before the script "s.py"
  std::string shown;
};

// Every option of torch's launchers in every spelling.
const std::vector<Accepted>& accepted() {
  static const std::vector<Accepted> kTable = {
      {{}, "per_node=1"},
      {{"--nproc-per-node", "4"}, "per_node=4"},
      {{"--nproc_per_node=4"}, "per_node=4"},
      {{"--nnodes", "1"}, "per_node=1"},
      {{"--nnodes=2:4"}, "per_node=1 on_failure=3 fewest_hosts=2"},
      {{"--nnodes=2:4", "--on-failure", "fail"}, "per_node=1 fewest_hosts=2"},
      {{"--nnodes=2:4", "--spares", "n4"}, "per_node=1 on_failure=3 reserve=n4:-1 fewest_hosts=2 restarts=3"},
      {{"--nnodes=2:2"}, "per_node=1"},
      {{"--nnodes=2:4", "--on-failure", "replace"}, "per_node=1 on_failure=2 fewest_hosts=2 restarts=3"},
      {{"--standalone"}, "per_node=1 host=localhost:-1"},
      {{"--use-env"}, "per_node=1"},
      {{"--use_env"}, "per_node=1"},
      {{"--max-restarts", "0"}, "per_node=1"},
      {{"--max_restarts=3"}, "per_node=1 restarts=3"},
      {{"--role", "trainer"}, "per_node=1"},
      {{"--log-dir", "d"}, "per_node=1 log=d"},  // torchrun writes there only what -r or -t name
      {{"--log_dir=d", "-t", "3"}, "per_node=1 output=d log=d"},
      {{"--logdir", "d"}, "per_node=1 output=d log=d"},
      {{"--log-dir", "d", "--tee", "0:1,1:2"}, "per_node=1 output=d log=d files=0,0:1,1:2"},
      {{"--log-dir", "d", "-t", "0"}, "per_node=1 log=d"},
      {{"--log-dir", "d", "-r", "3"}, "per_node=1 output=d log=d hidden=3"},
      {{"--log-dir", "d", "-r", "1"}, "per_node=1 output=d log=d files=1 hidden=1"},
      {{"--log-dir", "d", "-r", "3", "-t", "0:1"}, "per_node=1 output=d log=d files=3,0:3 hidden=3,0:2"},
      {{"--log-dir", "d", "-r", "1:2", "-t", "0:1,1:1"}, "per_node=1 output=d log=d files=0,0:1,1:3 hidden=0,0:0,1:2"},
      {{"--log-dir", "d", "--log-layout", "torchrun", "-t", "3"}, "per_node=1 output=d log=d layout=torchrun"},
      {{"--log-dir=d", "--log_layout=ranks"}, "per_node=1 log=d"},
      {{"--log-layout", "torchrun"}, "per_node=1 note=--log-layout"},
      {{"--redirects=3"}, "per_node=1 note=--redirects"},  // to no file: the console keeps it
      {{"-t", "3"}, "per_node=1 note=-t"},
      {{"--log-dir", "d", "-t", "1", "--output-filename", "mine"}, "per_node=1 output=mine log=d"},
      {{"-r", "1", "--output-filename", "mine"}, "per_node=1 output=mine hidden=1"},
      {{"--local-ranks-filter", "0,2"}, "per_node=1 shown=0 shown=2"},
      {{"--local_ranks_filter=1"}, "per_node=1 shown=1"},
      {{"--nproc-per-node", "gpu"}, "devices=0"},
      {{"--nproc_per_node=cpu"}, "devices=1"},
      {{"--nproc_per_node=auto"}, "devices=2"},
      {{"--numa-binding", "node"}, "per_node=1 bind=numa"},
      {{"--numa_binding=socket"}, "per_node=1 bind=socket"},
      {{"--numa-binding", "exclusive"}, "per_node=1"},
      {{"--node-rank", "1"}, "per_node=1 note=--node-rank"},
      {{"--node_rank=1"}, "per_node=1 note=--node_rank"},
      {{"--master-addr", "10.0.0.1"}, "per_node=1 note=--master-addr"},
      {{"--master_addr=10.0.0.1", "--master_port=1234"}, "per_node=1 note=--master_addr, --master_port"},
      {{"--master-port", "1234"}, "per_node=1 note=--master-port"},
      {{"--local-addr", "a"}, "per_node=1 note=--local-addr"},
      {{"--local_addr", "a"}, "per_node=1 note=--local_addr"},
      {{"--rdzv-backend", "c10d"}, "per_node=1 note=--rdzv-backend"},
      {{"--rdzv_backend=c10d"}, "per_node=1 note=--rdzv_backend"},
      {{"--rdzv-endpoint", "h:1"}, "per_node=1 note=--rdzv-endpoint"},
      {{"--rdzv_endpoint", "h:1"}, "per_node=1 note=--rdzv_endpoint"},
      {{"--rdzv-id", "100"}, "per_node=1 env=TORCHELASTIC_RUN_ID=100"},
      {{"--rdzv_id", "x"}, "per_node=1 env=TORCHELASTIC_RUN_ID=x"},
      {{"--shutdown-timeout", "7"}, "per_node=1 grace=7000ms"},
      {{"--shutdown_timeout=0"}, "per_node=1 grace=0ms"},
      {{"--duplicate-stdout-filters", "a,b"}, "per_node=1 note=--duplicate-stdout-filters"},
      {{"--duplicate_stdout_filters=a"}, "per_node=1 note=--duplicate_stdout_filters"},
      {{"--duplicate-stderr-filters", "a"}, "per_node=1 note=--duplicate-stderr-filters"},
      {{"--duplicate_stderr_filters=a"}, "per_node=1 note=--duplicate_stderr_filters"},
      {{"--duplicate-stdout-filters", "a,,b", "--log-dir", "d"}, "per_node=1 log=d filter=a|b"},
      {{"--log-dir", "d", "--duplicate_stderr_filters=c"}, "per_node=1 log=d filter=c"},
      {{"--log-line-prefix-template", "${rank}"}, "per_node=1 note=--log-line-prefix-template"},
      {{"--log_line_prefix_template=x"}, "per_node=1 note=--log_line_prefix_template"},
      {{"--rdzv-conf", "a=b"}, "per_node=1 note=--rdzv-conf"},
      {{"--rdzv_conf", "a=b"}, "per_node=1 note=--rdzv_conf"},
      {{"--monitor-interval", "5"}, "per_node=1 note=--monitor-interval"},
      {{"--monitor_interval", "5"}, "per_node=1 note=--monitor_interval"},
      {{"--start-method", "fork"}, "per_node=1 note=--start-method"},
      {{"--start_method", "fork"}, "per_node=1 note=--start_method"},
      {{"--event-log-handler", "null"}, "per_node=1 note=--event-log-handler"},
      {{"--event_log_handler", "null"}, "per_node=1 note=--event_log_handler"},
      {{"--logs-specs", "x"}, "per_node=1 note=--logs-specs"},
      {{"--logs_specs", "x"}, "per_node=1 note=--logs_specs"},
      {{"--signals-to-handle", "SIGUSR1"}, "per_node=1 note=--signals-to-handle"},
      {{"--signals_to_handle", "SIGUSR1"}, "per_node=1 note=--signals_to_handle"},
      {{"--nnodes=2", "--node_rank=0"}, "per_node=1 note=--nnodes, --node_rank"},
      // ours go with them
      {{"-H", "n1,n2", "--nproc_per_node=2", "-x", "A=1"}, "per_node=2 host=n1:-1 host=n2:-1 env=A=1"},
      {{"--hostfile", "f", "--timeout", "2h"}, "per_node=1 hostfile=f timeout=7200000ms"},
  };
  return kTable;
}

TEST(Torchrun, EveryOptionInEverySpelling) {
  for (const Accepted& given : accepted()) {
    Words words = given.words;
    words.emplace_back("s.py");
    const ParsedHvdrun parsed = torch(words);
    ASSERT_FALSE(parsed.exit_code) << base::join(words, " ") << ": " << parsed.text;
    EXPECT_EQ(show(parsed), given.shown) << base::join(words, " ");
    EXPECT_EQ(command_of(parsed), "python3 -u s.py");
  }
}

TEST(Torchrun, NoSpellingOfTorchsIsMissing) {
  // These change the command or are refused: below.
  std::set<std::string> tried = {"-m",         "--module",   "--no-python",          "--no_python",
                                 "--run-path", "--run_path", "--virtual-local-rank", "--virtual_local_rank"};
  for (const Accepted& given : accepted()) {
    for (const std::string& word : given.words) tried.insert(word.substr(0, word.find('=')));
  }
  for (const Flag& flag : torchrun_flags().flags()) {
    if (flag.group != FlagGroup::kTorch && flag.group != FlagGroup::kTorchUnneeded) continue;
    for (const Spelling& spelling : flag.spellings) {
      EXPECT_TRUE(tried.contains(std::string(spelling.text))) << spelling.text;
    }
  }
}

TEST(Torchrun, SpellingsDoNotMeetHvdruns) {
  std::set<std::string_view> spellings;
  for (const Flag& flag : torchrun_flags().flags()) {
    for (const Spelling& spelling : flag.spellings)
      EXPECT_TRUE(spellings.insert(spelling.text).second) << spelling.text;
  }
}

TEST(Torchrun, CommandIsPutTogetherAsTorchDoes) {
  const std::string by_path =
      "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')";
  const std::vector<std::pair<Words, std::string>> table = {
      {{"s.py", "--nproc-per-node", "3", "{rank}"}, "python3 -u s.py --nproc-per-node 3 {rank}"},
      {{"-m", "pkg.train", "-v"}, "python3 -u -m pkg.train -v"},
      {{"--module", "pkg"}, "python3 -u -m pkg"},
      {{"--no-python", "./prog", "-x"}, "./prog -x"},
      {{"--no_python", "./prog"}, "./prog"},
      {{"torchrun", "--nproc-per-node=2", "s.py"}, "python3 -u s.py"},
      {{"/opt/venv/bin/torchrun", "s.py", "torchrun"}, "python3 -u s.py torchrun"},
      {{"python", "-m", "torch.distributed.run", "--nnodes", "1", "s.py"}, "python -u s.py"},
      {{"python3.11", "train.py"}, "python3 -u python3.11 train.py"},  // a script of that name
      {{"-H", "n1", "/opt/py/bin/python3", "-u", "-m", "torch.distributed.launch", "--nproc_per_node=2", "s.py", "a"},
       "/opt/py/bin/python3 -c INSERT {local_rank} _ 3 /opt/py/bin/python3 -u s.py a"},
      {{"python", "-m", "torch.distributed.launch", "--nproc-per-node=2", "s.py", "a"},
       "python -c INSERT {local_rank} - 3 python -u s.py a"},
      {{"python", "-m", "torch.distributed.launch", "--nproc-per-node=2", "--use_env", "s.py"}, "python -u s.py"},
      {{"python", "-m", "torch.distributed.launch", "-m", "pkg"}, "python -c INSERT {local_rank} _ 4 python -u -m pkg"},
      {{"python", "-m", "torch.distributed.launch", "--no_python", "./p", "a"},
       "python -c INSERT {local_rank} _ 1 ./p a"},
      {{"python", "-m", "torch.distributed.launch", "--no_python", "--use_env", "./p"}, "./p"},
      {{"--", "-odd.py"}, "python3 -u -odd.py"},
      {{"--run-path", "s.py", "-c", "x"}, "python3 -u -c " + by_path + " s.py -c x"},
      {{"--run_path", "--no-python", "s.py"}, "python3 -u -c " + by_path + " s.py"},
      {{"python", "-m", "torch.distributed.launch", "--run_path", "s.py"}, "python -u -c " + by_path + " s.py"},
  };
  for (const auto& [words, expected] : table) EXPECT_EQ(command_of(torch(words)), expected) << base::join(words, " ");
  EXPECT_EQ(command_of(torch({"s.py"}, {}, "torch.distributed.launch")),
            "python3 -c INSERT {local_rank} _ 3 python3 -u s.py");
}

// Braces of the user's own are left alone: only torch's argument is expanded.
TEST(Torchrun, OnlyTheLocalRankIsExpanded) {
  const ParsedHvdrun parsed = torch({"python", "-m", "torch.distributed.launch", "s.py", "{rank}"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  ASSERT_THAT(parsed.options.request.job.expand, ElementsAre(3));
  EXPECT_EQ(parsed.options.request.job.command[3], "{local_rank}");
  EXPECT_THAT(torch({"s.py", "{rank}"}).options.request.job.expand, IsEmpty());
}

TEST(Torchrun, AVirtualLocalRankIsZeroAndSeesItsOwnGpuAlone) {
  for (const char* spelling : {"--virtual-local-rank", "--virtual_local_rank"}) {
    const ParsedHvdrun parsed = torch({spelling, "s.py", "a"});
    ASSERT_FALSE(parsed.exit_code) << parsed.text;
    EXPECT_EQ(command_of(parsed), "env LOCAL_RANK=0 python3 -u s.py a");
    EXPECT_EQ(parsed.options.request.job.pinning.gpu_bind, model::GpuBind::kOne);
  }
  const ParsedHvdrun launch = torch({"--virtual-local-rank", "s.py"}, {}, "torch.distributed.launch");
  EXPECT_EQ(command_of(launch), "env LOCAL_RANK=0 python3 -c INSERT {local_rank} - 3 python3 -u s.py");
  EXPECT_THAT(launch.options.request.job.expand, ElementsAre(5));
  EXPECT_EQ(torch({"s.py"}).options.request.job.pinning.gpu_bind, model::GpuBind::kOrder);
}

TEST(Torchrun, RefusesWithOneSentence) {
  const std::vector<std::pair<Words, std::string>> table = {
      {{}, "no script is given"},
      {{"--nproc_per_node=2"}, "no script is given"},
      {{"torchrun"}, "no script is given"},
      {{"--nproc-per-node", "xpu", "s"}, "--nproc-per-node: Intel's GPUs are not counted"},
      {{"--nproc-per-node", "0", "s"}, "--nproc-per-node must be a number from 1"},
      {{"--nproc_per_node=two", "s"}, "--nproc_per_node must be gpu, cpu, auto or a number, not 'two'"},
      {{"--nnodes", "0", "s"}, "--nnodes must be a number of hosts, or MIN:MAX, not '0'"},
      {{"--nnodes", "3:2", "s"}, "--nnodes must be a number of hosts"},
      {{"--nnodes", "1:2:3", "s"}, "--nnodes must be a number of hosts"},
      {{"--standalone", "-H", "n1", "s"}, "--standalone means this host"},
      {{"--tee", "4", "s"}, "--tee must be a number from 0 to 3, or RANK:NUMBER"},
      {{"-r", "x:1", "s"}, "-r must be a number from 0 to 3"},
      {{"--shutdown-timeout", "x", "s"}, "--shutdown-timeout must be a number from 0"},
      {{"--max-restarts", "-1", "s"}, "--max-restarts must be a number from 0"},
      {{"--numa-binding", "core-complex", "s"}, "--numa-binding core-complex comes later"},
      {{"--numa-binding", "l3", "s"}, "--numa-binding must be one of"},
      {{"--local-ranks-filter", "0-1", "s"}, "--local-ranks-filter must be local ranks, as 0,1, not '0-1'"},
      {{"-m", "--no-python", "s"}, "--module and --no-python exclude each other"},
      {{"-m", "--run-path", "s"}, "--module and --run-path exclude each other"},
      {{"-np", "4", "s"}, "unknown option -np"},
      {{"--nproc-per-nod", "4", "s"}, "did you mean --nproc-per-node?"},
      {{"-H", "-x", "s"}, "-H: '-x' is not a host name"},
      {{"--stdin", "x", "s"}, "--stdin must be a rank, auto, all or none, not 'x'"},
  };
  for (const auto& [words, part] : table) {
    const ParsedHvdrun parsed = torch(words);
    ASSERT_EQ(parsed.exit_code, 2) << base::join(words, " ");
    EXPECT_THAT(parsed.text, StartsWith("muster torchrun: "));
    EXPECT_THAT(parsed.text, HasSubstr(part));
    EXPECT_EQ(parsed.text.find('\n'), parsed.text.size() - 1);
  }
}

TEST(Torchrun, VariablesSetTorchsOptions) {
  base::Environment environment;
  environment.set("PET_NPROC_PER_NODE", "3");
  environment.set("PET_NODE_RANK", "1");
  environment.set("PYTHON_EXEC", "/opt/python");
  EXPECT_EQ(show(torch({"s.py"}, environment)), "per_node=3 note=PET_NODE_RANK");
  EXPECT_EQ(show(torch({"--nproc_per_node=2", "s.py"}, environment)), "per_node=2 note=PET_NODE_RANK");
  EXPECT_EQ(command_of(torch({"s.py"}, environment)), "/opt/python -u s.py");
  environment.set("MUSTER_NUM_PROC", "7");  // hvdrun's: the number of ranks is torchrun's matter here
  EXPECT_EQ(show(torch({"--nproc_per_node=2", "s.py"}, environment)), "per_node=2 note=PET_NODE_RANK");
}

TEST(Torchrun, RoleAndRestartsTravelWithTheJob) {
  const ParsedHvdrun parsed = torch({"--role=trainer", "--max-restarts=2", "s.py"});
  EXPECT_EQ(parsed.options.request.job.role, "trainer");
  EXPECT_EQ(parsed.options.request.job.max_restarts, 2);
}

TEST(Torchrun, HelpIsItsOwn) {
  for (const Words& words : {Words{"--help"}, Words{"-H", "n1", "torchrun", "-h"}}) {
    const ParsedHvdrun parsed = torch(words);
    EXPECT_EQ(parsed.exit_code, 0);
    EXPECT_TRUE(parsed.is_help);
    EXPECT_THAT(parsed.text, StartsWith("Usage: muster torchrun "));
    EXPECT_THAT(parsed.text, HasSubstr("--nproc-per-node"));
  }
  EXPECT_THAT(torch({"--help"}).text, HasSubstr("--nproc-per-node, --nproc_per_node N"));
  EXPECT_THAT(torch({"-h"}).text, Not(HasSubstr("--nproc_per_node N")));
}

class TorchrunHosts : public ::testing::Test {
 protected:
  // Names of the hosts and ranks on each, or the error.
  static std::string place(const Words& words, const ProbeShapes& look = {},
                           const base::Environment& environment = {}) {
    ParsedHvdrun parsed = torch(words);
    if (parsed.exit_code) return parsed.text;
    const auto placed = place_job(parsed.options, environment, "/", look);
    if (!placed.ok()) return placed.status().message();
    std::string text;
    for (const model::PlacedHost& host : placed->placement.hosts) {
      text += fmt::format("{}{}:{}", text.empty() ? "" : " ", host.host.name, host.ranks.size());
    }
    return text;
  }
};

TEST_F(TorchrunHosts, EveryHostGetsTheSameNumber) {
  EXPECT_EQ(place({"--nproc_per_node=2", "s"}), "localhost:2");
  EXPECT_EQ(place({"--nproc_per_node=4", "-H", "n1,n2", "s"}), "n1:4 n2:4");
  EXPECT_EQ(place({"--nproc_per_node=4", "--nnodes=2", "-H", "n1,n2", "s"}), "n1:4 n2:4");
  EXPECT_EQ(place({"--nproc_per_node=2", "--nnodes=2", "-H", "n1,n1,n2,n3", "s"}), "n1:2 n2:2");
  EXPECT_EQ(place({"--nnodes=1:2", "-H", "n[1-3]", "s"}), "n1:1 n2:1");
}

TEST_F(TorchrunHosts, HostsThatAreLeftOutAreNamed) {
  const auto notes = [](const Words& words) {
    ParsedHvdrun parsed = torch(words);
    EXPECT_FALSE(parsed.exit_code) << parsed.text;
    EXPECT_TRUE(place_job(parsed.options, {}, "/", {}).ok());
    return parsed.options.output.notes;
  };
  EXPECT_THAT(notes({"--nnodes=1:2", "-H", "n1,n2,n3,n3", "s"}),
              ElementsAre("--nnodes takes 2 of 3 hosts: n3 is left out"));
  EXPECT_THAT(notes({"--nnodes", "1", "-H", "n[1-4]", "s"}),
              ElementsAre("--nnodes takes 1 of 4 hosts: n2 and 2 more are left out"));
  EXPECT_THAT(notes({"--nnodes=1:2", "-H", "n1,n2", "s"}), IsEmpty());
}

// n1 has two GPUs, all others none; every host has three CPUs.
std::vector<base::Result<model::NodeShape>> look_at(const std::vector<model::HostSpec>& hosts) {
  std::vector<base::Result<model::NodeShape>> shapes;
  for (const model::HostSpec& host : hosts) {
    if (host.name == "down") {
      shapes.emplace_back(base::error(base::Code::kUnavailable, "host down is down"));
      continue;
    }
    model::NodeShape shape;
    shape.cores = {{0, 0, {0, 1}}, {0, 0, {2}}};
    if (host.name == "n1") shape.gpus = {{.index = 0, .uuid = "GPU-a"}, {.index = 1, .uuid = "GPU-b"}};
    shapes.emplace_back(shape);
  }
  return shapes;
}

TEST_F(TorchrunHosts, DevicesAreThoseOfEachHost) {
  EXPECT_EQ(place({"--nproc_per_node=cpu", "s"}, look_at), "localhost:3");
  EXPECT_EQ(place({"--nproc_per_node=gpu", "-H", "n1", "s"}, look_at), "n1:2");
  EXPECT_EQ(place({"--nproc_per_node=auto", "-H", "n1,n2", "s"}, look_at), "n1:2 n2:3");
  EXPECT_EQ(place({"--nproc_per_node=auto", "-H", "n1:1,n2", "s"}, look_at), "n1:1 n2:3");  // explicit slots win
  EXPECT_EQ(place({"--nproc_per_node=cpu", "-H", "n1,n1,n2", "s"}, look_at), "n1:3 n2:3");
  EXPECT_EQ(place({"--nproc_per_node=gpu", "--nnodes=1", "-H", "n1,down", "s"}, look_at), "n1:2");
  EXPECT_EQ(place({"--nproc_per_node=gpu", "-x", "CUDA_VISIBLE_DEVICES=1", "-H", "n1", "s"}, look_at), "n1:1");
  EXPECT_EQ(place({"--nproc_per_node=gpu", "--gpus-per-rank", "2", "-H", "n1", "s"}, look_at), "n1:1");
  EXPECT_EQ(place({"--nproc_per_node=gpu", "--gpus-per-rank", "3", "-H", "n1", "s"}, look_at),
            "--nproc_per_node gpu: n1: --gpus-per-rank 3: ranks may use only 2 GPUs on that host");
  EXPECT_EQ(place({"--nproc_per_node=gpu", "-H", "n1,n2", "s"}, look_at),
            "--nproc_per_node gpu: n2 has no visible GPU: give --nproc-per-node cpu, or a number");
  EXPECT_EQ(place({"--nproc_per_node=gpu", "-H", "down,n1,n2", "s"}, look_at),
            "--nproc_per_node gpu: host down is down; n2 has no visible GPU: give --nproc-per-node cpu, or a number");
  EXPECT_EQ(place({"--nproc_per_node=gpu", "-H", "down", "s"}, look_at), "--nproc_per_node gpu: host down is down");
}

TEST_F(TorchrunHosts, TooFewHostsAreAnError) {
  EXPECT_THAT(place({"--nnodes=2", "s"}), HasSubstr("--nnodes needs 2 hosts, but only one is known: name more by -H"));
  EXPECT_THAT(place({"--nnodes=4:8", "-H", "n1,n2,n3", "s"}), HasSubstr("needs 4 hosts, but only 3 are known"));
  EXPECT_THAT(place({"--nnodes=2", "--standalone", "s"}), HasSubstr("needs 2 hosts"));
}

// The two command lines of a tutorial that opens a terminal on every host.
TEST_F(TorchrunHosts, TutorialsBecomeOneCommand) {
  const Words launch = {"-H",
                        "n1,n2",
                        "python3",
                        "-m",
                        "torch.distributed.launch",
                        "--nproc_per_node=4",
                        "--nnodes=2",
                        "--node_rank=0",
                        "--master_addr=192.168.1.1",
                        "--master_port=1234",
                        "train.py",
                        "--lr",
                        "0.1"};
  EXPECT_EQ(place(launch), "n1:4 n2:4");
  EXPECT_EQ(command_of(torch(launch)), "python3 -c INSERT {local_rank} _ 3 python3 -u train.py --lr 0.1");
  EXPECT_THAT(
      torch(launch).options.output.notes,
      ElementsAre("--nnodes, --node_rank, --master_addr, --master_port: not needed: this one command starts the "
                  "ranks on all hosts and brings them together"));

  const ParsedHvdrun by_hand =
      parse({"-np", "4", "-H", "n1:2,n2:2", "--expand", "python3", "main.py", "--dist-url",
             "tcp://{master_addr}:{master_port}", "--world-size", "{size}", "--rank", "{rank}"});
  ASSERT_FALSE(by_hand.exit_code) << by_hand.text;
  EXPECT_EQ(by_hand.options.request.job.expand.size(), by_hand.options.request.job.command.size());
}

}  // namespace
}  // namespace muster::cli::torchrun_test
