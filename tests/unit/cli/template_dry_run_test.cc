// Who runs where at each site, by its template alone: --dry-run --assume-node NAME.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/env.h"
#include "base/file.h"
#include "cli/dry_run.h"
#include "cli/job_hosts.h"
#include "job_templates/load.h"
#include "tests/unit/cli/parsed.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Table {
  std::string text;
  std::vector<std::string> notes;
};

Table table_of(const Words& words) {
  ParsedHvdrun parsed = parse(words);
  EXPECT_FALSE(parsed.exit_code) << parsed.text;
  if (parsed.exit_code) return {};
  const auto placed = place_job(parsed.options, {}, "/", {});
  EXPECT_TRUE(placed.ok()) << placed.status();
  if (!placed.ok()) return {};
  const std::vector shapes(placed->placement.hosts.size(), parsed.options.dry_run.assumed_node);
  const auto hosts = plan_dry_run(placed->placement, shapes, parsed.options.job, {});
  EXPECT_TRUE(hosts.ok()) << hosts.status();
  return {hosts.ok() ? format_dry_run(*hosts) : "", parsed.options.notes};
}

// MUSTER_WRITE_GOLDEN=1 cli_hosts_test writes them anew.
TEST(TemplateDryRun, GoldenTables) {
  for (const std::string& name : job_templates::template_names({})) {
    const auto loaded = job_templates::load_template(name, {});
    ASSERT_TRUE(loaded.ok());
    if (!loaded->node.is_known()) continue;
    const std::string path = fmt::format("{}/{}.table", MUSTER_GOLDEN, name);
    const std::string text = table_of({"--dry-run", "--assume-node", name, "true"}).text;
    if (base::env_var("MUSTER_WRITE_GOLDEN")) {
      const base::Status written = base::write_file_atomically(path, text, 0644);
      ASSERT_TRUE(written.ok()) << written;
    }
    const auto golden = base::read_file(path);
    ASSERT_TRUE(golden.ok()) << golden.status();
    EXPECT_EQ(text, *golden) << name << ": MUSTER_WRITE_GOLDEN=1 writes the golden files anew";
  }
}

TEST(TemplateDryRun, HostsThatNobodyHasNamedAreMadeUp) {
  const Table table = table_of({"--dry-run", "--assume-node", "polaris", "-np", "8", "-N", "4"});
  EXPECT_THAT(table.text, HasSubstr("x3006c0s1b0n0"));
  EXPECT_THAT(table.text, HasSubstr("x3006c0s2b0n0"));
  EXPECT_THAT(table.notes, ElementsAre(HasSubstr("made up")));
  const Table named = table_of({"--dry-run", "-t", "polaris", "-H", "a,b"});
  EXPECT_THAT(named.text, HasSubstr("     7  b "));
  EXPECT_THAT(named.notes, ElementsAre());
}

TEST(TemplateDryRun, AShapeMayGoBeforeTheTemplates) {
  const ParsedHvdrun parsed = parse({"--dry-run", "-t", "slurm-gpu", "--assume-node", "2x4+4"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(parsed.options.dry_run.assumed_node->cores.size(), 8U);
  EXPECT_EQ(parsed.options.job.placement.ranks_per_node, 4);
  EXPECT_THAT(parse({"--dry-run", "--assume-node", "ssh-lab"}).text,
              HasSubstr("the template ssh-lab does not say what a host looks like"));
}

}  // namespace
}  // namespace muster::cli
