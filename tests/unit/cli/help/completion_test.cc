// The generated scripts in real shells: bash completes what a user has typed so far; zsh and fish, where they are
// installed, at least read their scripts without a complaint.
#include "cli/help/completion.h"

#include <stdio.h>

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/doctor/doctor.h"
#include "cli/foreign/torchrun.h"
#include "cli/options/hvdrun_flags.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::completion_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using Words = std::vector<std::string>;

const CompletedProgram& hvdrun() {
  static const CompletedProgram kProgram = {"hvdrun", {{"", &hvdrun_flags()}}};
  return kProgram;
}

const CompletedProgram& muster() {
  static const CompletedProgram kProgram = {
      "muster",
      {{"torchrun", &torchrun_flags()}, {"torch.distributed.launch", &torchrun_flags()}, {"doctor", &doctor_flags()}}};
  return kProgram;
}

// A verb with switches only, as muster templates and muster compat are.
const CompletedProgram& with_switches() {
  static const FlagTable kTable({{.name = "json", .spellings = {{"--json", "true"}}, .help = "As JSON."},
                                 {.name = "help", .spellings = {{"--help", "true"}}, .help = "This."}});
  static const CompletedProgram kProgram = {"muster", {{"templates", &kTable}, {"doctor", &doctor_flags()}}};
  return kProgram;
}

class CompletionTest : public ::testing::Test {
 protected:
  // Stdout and stderr of a shell command, and its status.
  static std::pair<std::string, int> run(const std::string& command) {
    std::string output;
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return {"no shell", -1};
    char buffer[4096];
    for (std::size_t n = 0; (n = ::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
    return {output, ::pclose(pipe)};
  }

  // What bash offers for the last of `words`, the one under the cursor.
  Words complete(const CompletedProgram& program, const Words& words) const {
    std::string script = bash_completion(program) + "COMP_WORDS=(";
    for (const std::string& word : words) script += base::shell_quote(word) + " ";
    script +=
        fmt::format(")\nCOMP_CWORD={}\n_{}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n", words.size() - 1, program.name);
    const auto [output, status] =
        run(fmt::format("cd {} && bash --norc {}", directory_.path(), directory_.write("t.bash", script)));
    EXPECT_EQ(status, 0) << output;
    Words offered;
    for (const std::string_view line : base::split(base::trim(output), '\n')) {
      if (!line.empty()) offered.emplace_back(line);
    }
    return offered;
  }

  testing_support::TempDir directory_;
};

TEST_F(CompletionTest, BashOffersOptions) {
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "--fus"}), ElementsAre("--fusion-threshold-mb"));
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "-np", "4", "--time"}),
              ElementsAre("--timeout", "--timeline-filename", "--timeline-mark-cycles"));
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "--blacklist-cooldown-range", "1", "2", "--no-au"}),
              ElementsAre("--no-autotune"));
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "--timeout", "=", "5m", "--oversub"}), ElementsAre("--oversubscribe"));
}

TEST_F(CompletionTest, BashOffersValues) {
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "--map-by", ""}), ElementsAre("slot", "node"));
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "--verbose", "--on-exit", "any"}), ElementsAre("any-kill"));
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "--map-by", "="}), ElementsAre("slot", "node"));
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "--map-by", "=", "n"}), ElementsAre("node"));
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "-np", ""}), IsEmpty());
  directory_.write("hosts.txt", "");
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "--hostfile", "hos"}), ElementsAre("hosts.txt"));
  std::filesystem::create_directory(directory_ / "logs");
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "--output-filename", "l"}), ElementsAre("logs"));
}

TEST_F(CompletionTest, BashLeavesTheCommandAlone) {
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "-np", "2", "python3", "--ver"}), Not(Contains("--verbose")));
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "--", "--ver"}), Not(Contains("--verbose")));
  EXPECT_THAT(complete(hvdrun(), {"hvdrun", "-np", "2", "bas"}), Contains("bash"));
}

TEST_F(CompletionTest, BashKnowsVerbs) {
  EXPECT_THAT(complete(muster(), {"muster", ""}), ElementsAre("torchrun", "torch.distributed.launch", "doctor"));
  EXPECT_THAT(complete(muster(), {"muster", "torchrun", "--nproc"}),
              ElementsAre("--nproc-per-node", "--nproc_per_node"));
  EXPECT_THAT(complete(muster(), {"muster", "torch.distributed.launch", "--start-method", ""}),
              ElementsAre("spawn", "fork", "forkserver"));
  EXPECT_THAT(complete(muster(), {"muster", "doctor", "--js"}), ElementsAre("--json"));
}

TEST_F(CompletionTest, BashReadsVerbWithSwitchesOnly) {
  EXPECT_THAT(complete(with_switches(), {"muster", "templates", "--"}), ElementsAre("--json", "--help"));
  EXPECT_THAT(complete(with_switches(), {"muster", "templates", "--json", "--h"}), ElementsAre("--help"));
}

TEST_F(CompletionTest, OtherShellsReadTheirScripts) {
  for (const CompletedProgram* program : {&hvdrun(), &muster(), &with_switches()}) {
    for (const auto& [shell, check] : {std::pair("zsh", "zsh -n"), std::pair("fish", "fish --no-execute")}) {
      const auto script = completion(shell, *program);
      ASSERT_TRUE(script);
      EXPECT_THAT(*script, HasSubstr("json"));
      if (run(fmt::format("command -v {}", shell)).second != 0) continue;
      const auto [output, status] = run(fmt::format("{} {}", check, directory_.write(shell, *script)));
      EXPECT_EQ(status, 0) << output;
      EXPECT_EQ(output, "");
    }
  }
  EXPECT_EQ(completion("tcsh", hvdrun()), std::nullopt);
}

}  // namespace
}  // namespace muster::cli::completion_test
