// Scripts as a shell reads them: checked by shellcheck, and run with a program in hvdrun's place that says what it got.
#include <sys/stat.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "base/file.h"
#include "base/strings.h"
#include "tests/unit/job_templates/given.h"

namespace muster::job_templates::shell_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

struct Ended {
  int code = -1;
  std::string output;
};

Ended run(const std::string& command) {
  Ended ended;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ended;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) ended.output.append(buffer, got);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

class ScriptInShell : public ::testing::Test {
 protected:
  ScriptInShell() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = ::testing::TempDir() + "muster_script_" + info->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ScriptInShell() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << content;
    chmod(path.c_str(), 0700);
    return path;
  }

  // In hvdrun's place: writes its words to calls, one a line, and ends with $CODE.
  std::string stub() const {
    return write("hvdrun", "#!/bin/sh\nprintf '<%s>\\n' \"$@\" >> " + folder_ + "/calls\nexit \"${CODE:-0}\"\n");
  }

  // The words of all calls so far.
  std::vector<std::string> calls() const {
    const auto content = base::read_file(folder_ + "/calls");
    EXPECT_TRUE(content.ok()) << content.status();
    std::vector<std::string> words;
    std::string_view rest = content.ok() ? std::string_view(*content) : std::string_view();
    while (rest.starts_with('<')) {
      const auto end = rest.find(">\n");
      words.emplace_back(rest.substr(1, end - 1));
      rest.remove_prefix(end + 2);
    }
    return words;
  }

  Ended run_script(const Template& job_template, const Given& given, const std::vector<std::string>& command,
                   const std::string& before = "") const {
    ScriptRequest wish;
    wish.command = command;
    return run_wish(job_template, given, std::move(wish), before);
  }

  Ended run_wish(const Template& job_template, const Given& given, ScriptRequest wish,
                 const std::string& before = "") const {
    wish.hvdrun = stub();
    const auto script = render_script(with(job_template, given), wish);
    EXPECT_TRUE(script.ok()) << script.status();
    if (!script.ok()) return {};
    return run(fmt::format("cd {} && {} bash {}", folder_, before, write("job.sh", *script)));
  }

  std::string folder_;
};

TEST_F(ScriptInShell, ShellcheckFindsNothing) {
  if (run("command -v shellcheck").code != 0) GTEST_SKIP() << "shellcheck is not installed";
  for (const auto& entry : std::filesystem::directory_iterator("golden")) {
    if (entry.path().extension() != ".sh") continue;
    const Ended ended = run("shellcheck --norc " + entry.path().string());
    EXPECT_EQ(ended.code, 0) << ended.output;
  }
  // What a user types must not change that.
  for (const std::string& name : template_names({})) {
    const std::string path = write(
        name + ".sh", script_of(built_in(name), needed(name), {"sh", "-c", "echo $x `y` 'z' \"a\"\nb", "", "~", "*"}));
    const Ended ended = run("shellcheck --norc " + path);
    EXPECT_EQ(ended.code, 0) << ended.output;
  }
}

TEST_F(ScriptInShell, WordsReachHvdrunUnchanged) {
  const std::vector<std::string> odd = {"; rm -rf /", "$(touch hit)", "`touch hit`", "it's", "a\nb", "",   "*",
                                        "$HOME",      "\\",           "\"",          "-- x", "~",    "!x", "ä #"};
  const Ended ended = run_script(built_in("ssh-lab"), {{"hosts", "n1; touch hit"}, {"hostfile", "$(touch hit)"}}, odd);
  EXPECT_EQ(ended.code, 0) << ended.output;
  std::vector<std::string> expected = {
      "--hosts", "n1; touch hit", "--hostfile", "$(touch hit)", "--ranks-per-node", "1", "--"};
  expected.insert(expected.end(), odd.begin(), odd.end());
  EXPECT_EQ(calls(), expected);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/hit"));
}

TEST_F(ScriptInShell, ValuesInVariablesAndCommandsAreNotCode) {
  const Template job_template = parsed(
      "parameters: {what: {type: string}}\n"
      "environment: {WHAT: \"<{what}>\"}\n"
      "pre: {job: [\"printf '%s' \\\"$PARAM_WHAT\\\" > said\", \"printf '%s' \\\"$WHAT\\\" > set\"]}\n");
  const std::string value = "'; touch hit; $(touch hit) `touch hit` \"";
  EXPECT_EQ(run_script(job_template, {{"what", value}}, {"true"}).output, "");
  EXPECT_EQ(*base::read_file(folder_ + "/said"), value);
  EXPECT_EQ(*base::read_file(folder_ + "/set"), "<" + value + ">");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/hit"));
}

TEST_F(ScriptInShell, HelpAndOriginsAreOnlyComments) {
  const Template job_template = parsed("help: \"a\\n$(touch hit)\\ntouch hit\\r\\ntouch hit\"\n");
  EXPECT_EQ(run_script(job_template, {}, {"true"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/hit"));
}

TEST_F(ScriptInShell, ExitCodeIsThatOfTheProgram) {
  EXPECT_EQ(run_script(built_in("slurm-cpu"), {}, {"true"}, "CODE=7").code, 7);
  const Template with_post = parsed("post: {job: [echo done > after]}\n");
  EXPECT_EQ(run_script(with_post, {}, {"true"}, "CODE=9").code, 9);
  EXPECT_EQ(*base::read_file(folder_ + "/after"), "done\n");
}

TEST_F(ScriptInShell, AFailureBeforeTheJobKeepsItFromStarting) {
  EXPECT_EQ(run_script(parsed("pre: {job: [\"false\", touch late]}\n"), {}, {"true"}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/late"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/calls"));
  EXPECT_EQ(run_script(parsed("pre: {node: [hostname]}\n"), {}, {"true"}, "CODE=3").code, 3);
  EXPECT_THAT(calls(), Not(Contains("true")));
}

TEST_F(ScriptInShell, EveryHostRunsItsCommandsOnce) {
  const Template job_template = parsed("launch: {hosts: \"n1,n2\", depth: 3}\npre: {node: [echo it]}\n");
  EXPECT_EQ(run_script(job_template, {}, {"true"}).code, 0);
  const std::string code = "\n[ \"$MUSTER_LOCAL_RANK\" = 0 ] || exit 0\nset -e\necho it\n";
  EXPECT_THAT(calls(), ElementsAre("-N", "1", "--bind-to", "none", "--gpu-bind", "none", "--hosts", "n1,n2", "--", "sh",
                                   "-c", code, "--hosts", "n1,n2", "--depth", "3", "--", "true"));
}

TEST_F(ScriptInShell, EveryHostIsReachedAsTheJobsHostsAre) {
  const Template job_template = parsed("launch: {spare: 1}\npre: {node: [echo it]}\n");
  ScriptRequest wish;
  wish.command = {"true"};
  wish.extra = {{"-np", "2"}, {"-p", "2222"}};
  wish.reach = {{"-p", "2222"}};
  EXPECT_EQ(run_wish(job_template, {}, wish).code, 0);
  const std::string code = "\n[ \"$MUSTER_LOCAL_RANK\" = 0 ] || exit 0\nset -e\necho it\n";
  EXPECT_THAT(calls(), ElementsAre("-N", "1", "--bind-to", "none", "--gpu-bind", "none", "--spare", "1", "-p", "2222",
                                   "--", "sh", "-c", code, "--spare", "1", "-np", "2", "-p", "2222", "--", "true"));
}

TEST_F(ScriptInShell, TheWordThatTimeIsUpReachesTheJob) {
  const Template job_template = parsed("post: {job: [echo done > after]}\n");
  ScriptRequest wish;
  // Says that it runs, waits for the signal, and takes its time to end.
  wish.hvdrun = write("slow",
                      "#!/bin/bash\ntrap 'echo told > told; exit 5' TERM\nmkfifo wait\necho > up\n"
                      "while :; do read -r _ < wait; done\n");
  wish.command = {"true"};
  const auto script = render_script(with(job_template, {}), wish);
  ASSERT_TRUE(script.ok());
  write("job.sh", *script);
  const Ended ended =
      run(fmt::format("cd {} && mkfifo up && {{ bash job.sh & }}; read -r _ < up; kill -TERM $!; wait $!", folder_));
  EXPECT_EQ(ended.code, 5) << ended.output;
  EXPECT_EQ(*base::read_file(folder_ + "/told"), "told\n");
  EXPECT_EQ(*base::read_file(folder_ + "/after"), "done\n");
}

TEST_F(ScriptInShell, TheWordIsNotLostWhileTheJobStarts) {
  ScriptRequest wish;
  wish.hvdrun = write("waits", "#!/bin/sh\nexec cat never\n");
  wish.command = {"true"};
  auto script = render_script(with(parsed("post: {job: [echo done > after]}\n"), {}), wish);
  ASSERT_TRUE(script.ok());
  // Between the trap and the start.
  const auto start = script->find("\"$hvdrun\" \\\n");
  ASSERT_NE(start, std::string::npos);
  script->insert(start, "kill -TERM $$\n");
  write("job.sh", *script);
  const Ended ended = run(fmt::format("cd {} && mkfifo never && timeout 60 bash job.sh", folder_));
  EXPECT_EQ(ended.code, 128 + SIGTERM) << ended.output;
  EXPECT_EQ(*base::read_file(folder_ + "/after"), "done\n");
}

TEST_F(ScriptInShell, TheWordDoesNotEndWhatRunsAfterTheJob) {
  const Template job_template = parsed("post: {job: [\"kill -TERM $$\", echo done > after]}\n");
  const Ended ended = run_script(job_template, {}, {"true"}, "CODE=9");
  EXPECT_EQ(ended.code, 9);
  EXPECT_EQ(ended.output, "");
  EXPECT_EQ(*base::read_file(folder_ + "/after"), "done\n");
}

struct RoleCase {
  int rank;
  const char* role;
  const char* workers;
};

TEST_F(ScriptInShell, RanksOfAParameterServerKnowTheirRole) {
  const auto plan = plan_launch(with(built_in("mxnet-ps"), {{"servers", "2"}}));
  ASSERT_TRUE(plan.ok());
  std::string command;
  for (const std::string& word : plan->prefix) command += base::shell_quote(word) + " ";
  command += "sh -c 'echo $DMLC_ROLE $DMLC_PS_ROOT_URI:$DMLC_PS_ROOT_PORT $DMLC_NUM_SERVER $DMLC_NUM_WORKER'";
  for (const RoleCase& each : {RoleCase{0, "scheduler", "5"}, RoleCase{1, "server", "5"}, RoleCase{2, "server", "5"},
                               RoleCase{3, "worker", "5"}, RoleCase{7, "worker", "5"}}) {
    const Ended ended =
        run(fmt::format("MASTER_ADDR=n1 MASTER_PORT=99 MUSTER_SIZE=8 MUSTER_RANK={} {}", each.rank, command));
    EXPECT_EQ(ended.output, fmt::format("{} n1:99 2 {}\n", each.role, each.workers));
  }
  const Ended few = run("MUSTER_SIZE=3 MUSTER_RANK=0 " + command);
  EXPECT_EQ(few.code, 2);
  EXPECT_THAT(few.output, HasSubstr("mxnet-ps needs more than 3 ranks"));
}

}  // namespace
}  // namespace muster::job_templates::shell_test
