// Who runs where at each site, by its template alone: --dry-run --assume-node NAME.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/env.h"
#include "base/file.h"
#include "cli/hosts/dry_run.h"
#include "cli/hosts/job_hosts.h"
#include "cli/verbs/template_job.h"
#include "job_templates/load.h"
#include "tests/unit/cli/options/parsed.h"

namespace muster::cli::template_dry_run_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Table {
  std::string text;
  std::vector<std::string> notes;
};

Table table_of(ParsedHvdrun parsed) {
  EXPECT_FALSE(parsed.exit_code) << parsed.text;
  if (parsed.exit_code) return {};
  const auto placed = place_job(parsed.options, {}, "/", {});
  EXPECT_TRUE(placed.ok()) << placed.status();
  if (!placed.ok()) return {};
  const std::vector shapes(placed->placement.hosts.size(), parsed.options.dry_run.assumed_node);
  const auto hosts = plan_dry_run(placed->placement, shapes, parsed.options.request.job, {});
  EXPECT_TRUE(hosts.ok()) << hosts.status();
  return {hosts.ok() ? format_dry_run(*hosts) : "", parsed.options.output.notes};
}

Table table_of(const Words& words) {
  return table_of(parse(words));
}

// As `muster submit --dry-run -t` has it.
base::Result<TemplateLine> line_of(const Words& words) {
  std::vector<Flag> rows;
  add_group(FlagGroup::kGeneral, with_template_rows({}), rows);
  return read_template_line(words, words[1], rows, {});
}

Table submitted(const Words& words) {
  const auto line = line_of(words);
  EXPECT_TRUE(line.ok()) << line.status();
  return line.ok() ? table_of(parse_template_dry_run(*line, {}, {})) : Table();
}

// MUSTER_WRITE_GOLDEN=1 cli_hosts_test writes them anew.
TEST(TemplateDryRun, GoldenTables) {
  for (const std::string& name : job_templates::template_names({})) {
    const auto loaded = job_templates::load_template(name, {});
    ASSERT_TRUE(loaded.ok());
    const std::string path = fmt::format("{}/{}.table", MUSTER_GOLDEN, name);
    const bool is_known = loaded->node.is_known();
    const std::string text = is_known ? table_of({"--dry-run", "--assume-node", name, "true"}).text
                             : loaded->parameter("nodes") != nullptr
                                 ? submitted({"-t", name, "--nodes", "2", "--", "true"}).text
                                 : submitted({"-t", name, "-H", "n1,n2", "--", "true"}).text;
    if (base::env_var("MUSTER_WRITE_GOLDEN")) {
      const base::Status written = base::write_file_atomically(path, text, 0644);
      ASSERT_TRUE(written.ok()) << written;
    }
    const auto golden = base::read_file(path);
    ASSERT_TRUE(golden.ok()) << golden.status();
    EXPECT_EQ(text, *golden) << name << ": MUSTER_WRITE_GOLDEN=1 writes the golden files anew";
  }
}

TEST(TemplateDryRun, MakesUpHostsWhenNoneAreNamed) {
  const Table table = table_of({"--dry-run", "--assume-node", "polaris", "-np", "8", "-N", "4"});
  EXPECT_THAT(table.text, HasSubstr("x3006c0s1b0n0"));
  EXPECT_THAT(table.text, HasSubstr("x3006c0s2b0n0"));
  EXPECT_THAT(table.notes, ElementsAre(HasSubstr("made up")));
  const Table named = table_of({"--dry-run", "-t", "polaris", "-H", "a,b"});
  EXPECT_THAT(named.text, HasSubstr("     7  b "));
  EXPECT_THAT(named.notes, ElementsAre());
}

TEST(TemplateDryRun, ShowsUnknownHostsWhenTheTemplateDescribesNone) {
  const Table table = submitted({"-t", "slurm-gpu", "--nodes", "2", "--", "true"});
  EXPECT_THAT(table.text, HasSubstr("     7  host2        3/4        1/2    -  -\n"));
  EXPECT_THAT(table.notes, Contains(HasSubstr("the names of the hosts are made up; -H names real ones")));
  EXPECT_THAT(submitted({"-t", "slurm-gpu", "-H", "a,b", "--", "true"}).text, HasSubstr("     7  b "));
}

// The lists of CPUs beside GPUs do not hold for jobs that need none.
TEST(TemplateDryRun, AJobWithoutGpusMayHaveARankOnEveryCore) {
  constexpr const char* kLast = "   101  x4407c0s1b0n0    101/102        0/1    -  103,207\n";
  EXPECT_THAT(submitted({"-t", "aurora", "--nodes", "1", "-N", "102", "--gpu-bind", "none", "--", "true"}).text,
              HasSubstr(kLast));
  EXPECT_THAT(table_of({"--dry-run", "-t", "aurora", "-np", "102", "-N", "102", "--gpu-bind", "none", "true"}).text,
              HasSubstr(kLast));
}

// What to say when it needs none.
TEST(TemplateDryRun, NamesTheFlagWhenRanksOutnumberTiles) {
  ParsedHvdrun parsed = parse({"--dry-run", "-t", "aurora", "-np", "102", "-N", "102", "true"});
  const auto placed = place_job(parsed.options, {}, "/", {});
  ASSERT_TRUE(placed.ok()) << placed.status();
  const auto hosts =
      plan_dry_run(placed->placement, {parsed.options.dry_run.assumed_node}, parsed.options.request.job, {});
  EXPECT_THAT(hosts.status().message(), HasSubstr("102 ranks need 1 tile each, but ranks may use 12 tiles: use fewer "
                                                  "ranks, --share-gpu if several may share one, or --gpu-bind none"));
}

JobRequest taken(const Words& words) {
  const auto line = line_of(words);
  EXPECT_TRUE(line.ok()) << line.status();
  if (!line.ok()) return {};
  const auto job = hvdrun_words(*line);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return {};
  JobRequest request = parse(*job).options.request;
  take_demand(line->values, request);
  return request;
}

TEST(TemplateJob, NodesAndTimeBecomeRanksAndALimit) {
  const JobRequest polaris = taken({"-t", "polaris", "--nodes", "4", "--", "true"});
  EXPECT_EQ(polaris.job.placement.np, 16);
  EXPECT_EQ(polaris.job.timeout, std::chrono::minutes(30));
  EXPECT_EQ(taken({"-t", "slurm-cpu", "--time", "90s", "true"}).job.timeout, std::chrono::seconds(90));
  EXPECT_EQ(taken({"-t", "slurm-cpu", "--timeout", "5s", "true"}).job.timeout, std::chrono::seconds(5));
  EXPECT_EQ(taken({"-t", "slurm-gpu", "--nodes", "2", "-np", "3", "true"}).job.placement.np, 3);
  EXPECT_EQ(taken({"-t", "slurm-gpu", "-H", "a,b", "true"}).job.placement.np, 0);
  EXPECT_EQ(taken({"-t", "ssh-lab", "true"}).job.placement.np, 0);
  EXPECT_FALSE(taken({"-t", "ssh-lab", "true"}).job.timeout);
}

TEST(TemplateDryRun, LetsAShapeWinOverTheTemplates) {
  const ParsedHvdrun parsed = parse({"--dry-run", "-t", "slurm-gpu", "--assume-node", "2x4+4"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(parsed.options.dry_run.assumed_node->cores.size(), 8U);
  EXPECT_EQ(parsed.options.request.job.placement.ranks_per_node, 4);
  EXPECT_THAT(parse({"--dry-run", "--assume-node", "ssh-lab"}).text,
              HasSubstr("the template ssh-lab does not describe a host"));
}

}  // namespace
}  // namespace muster::cli::template_dry_run_test
