#include "cli/options/template_defaults.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "cli/options/hvdrun_flags.h"
#include "job_templates/load.h"
#include "job_templates/schema.h"
#include "tests/unit/cli/options/parsed.h"

namespace muster::cli::template_defaults_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A template can say nothing that hvdrun does not know.
TEST(TemplateDefaults, EveryLaunchKeyIsAnOption) {
  const auto& keys = job_templates::template_schema().below;
  const auto launch = std::ranges::find(keys, "launch", &job_templates::KeyRule::key);
  ASSERT_NE(launch, keys.end());
  for (const job_templates::KeyRule& rule : launch->below) {
    std::string name = "--" + std::string(rule.key);
    std::ranges::replace(name, '_', '-');
    EXPECT_TRUE(hvdrun_flags().find(name)) << name;
  }
}

TEST(TemplateDefaults, AllBuiltInTemplatesAreUnderstoodByHvdrun) {
  for (const std::string& name : job_templates::template_names({})) {
    const ParsedHvdrun parsed = parse({"-t", name, "true"});
    EXPECT_FALSE(parsed.exit_code) << name << ": " << parsed.text;
  }
}

TEST(TemplateDefaults, LoseAgainstTypedOptions) {
  EXPECT_EQ(show(parse({"-t", "slurm-gpu", "p"})).find("per_node=4"), 0U);
  EXPECT_EQ(show(parse({"-N", "2", "-t", "slurm-gpu", "p"})).find("per_node=2"), 0U);
  base::Environment environment;
  environment.set("MUSTER_RANKS_PER_NODE", "3");
  EXPECT_EQ(show(parse({"-t", "slurm-gpu", "p"}, environment)).find("per_node=3"), 0U);
  const ParsedHvdrun torch = parse({"-t", "torch-ddp", "-x", "OMP_NUM_THREADS=7", "p"});
  EXPECT_THAT(
      torch.options.request.job.environment.named,
      ElementsAre("OMP_NUM_THREADS=1", "PYTHONUNBUFFERED=1", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "OMP_NUM_THREADS=7"));
  EXPECT_THAT(parse({"-t", "none-such", "p"}).text, HasSubstr("hvdrun: -t: unknown template 'none-such'"));
}

TEST(TemplateDefaults, AddANoteForWhatOnlyAScriptRuns) {
  const std::string path = ::testing::TempDir() + "muster_with_commands.yaml";
  const base::Status written = base::write_file_atomically(path, "modules: [a]\npre: {job: [b]}\n", 0644);
  ASSERT_TRUE(written.ok()) << written;
  const ParsedHvdrun parsed = parse({"-t", path, "true"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_THAT(parsed.options.output.notes,
              ElementsAre(HasSubstr("only its script runs these parts, which are ignored here: modules, pre.job (")));
  EXPECT_THAT(parse({"--dry-run", "-t", path, "true"}).options.output.notes, ElementsAre());
}

TEST(TemplateDefaults, AddANoteForATileThatTheTemplateChooses) {
  const Words aurora = {"-t", "aurora", "--set", "project=p"};
  const auto notes = [&](const Words& more) {
    Words words = aurora;
    words.insert(words.end(), more.begin(), more.end());
    words.emplace_back("true");
    const ParsedHvdrun parsed = parse(words);
    EXPECT_FALSE(parsed.exit_code) << parsed.text;
    return parsed.options.output.notes;
  };
  const auto said = HasSubstr("template aurora: each rank sees only its own tile, as device 0");
  EXPECT_THAT(notes({}), testing::Contains(said));
  EXPECT_THAT(notes({"--gpu-bind", "tile"}), testing::Not(testing::Contains(said)));
  EXPECT_THAT(notes({"--gpu-bind", "none"}), testing::Not(testing::Contains(said)));
  EXPECT_THAT(notes({"--dry-run"}), testing::Not(testing::Contains(said)));
}

TEST(TemplateDefaults, ParametersCanBeSet) {
  const ParsedHvdrun parsed = parse({"-t", "slurm-gpu", "--set", "ranks-per-node=2", "p"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(parsed.options.request.job.placement.ranks_per_node, 2);
  EXPECT_THAT(parse({"-t", "slurm-gpu", "--set", "ranks-per-nod=2", "p"}).text, HasSubstr("--set ranks-per-nod"));
  EXPECT_THAT(parse({"-t", "slurm-gpu", "--set", "nodes", "p"}).text, HasSubstr("--set takes NAME=VALUE, not 'nodes'"));
  EXPECT_THAT(parse({"--set", "a=b", "p"}).text, HasSubstr("--set belongs to -t"));
}

// A time of a template is a time of hvdrun's.
TEST(TemplateDefaults, TimesAreUnderstood) {
  const std::string path = ::testing::TempDir() + "muster_with_times.yaml";
  const base::Status written = base::write_file_atomically(
      path,
      "parameters: {time: {type: time, default: 59m59s}}\n"
      "launch: {timeout: \"{time}\", signal: \"USR1@{time}\", start_timeout: \"{time}\", kill_grace: \"{time}\"}\n",
      0644);
  ASSERT_TRUE(written.ok()) << written;
  const ParsedHvdrun parsed = parse({"-t", path, "true"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(parsed.options.request.job.timeout, std::chrono::seconds(3599));
  EXPECT_EQ(parsed.options.request.job.end_signal->ahead, std::chrono::seconds(3599));
}

TEST(TemplateDefaults, RolesStandBeforeTheCommand) {
  const ParsedHvdrun parsed = parse({"-t", "mxnet-ps", "python3", "x.py"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  const auto& command = parsed.options.request.job.command;
  ASSERT_EQ(command.size(), 6U);
  EXPECT_EQ(command[0], "sh");
  EXPECT_EQ(command[3], "muster-role");
  EXPECT_EQ(command[5], "x.py");
}

}  // namespace
}  // namespace muster::cli::template_defaults_test
