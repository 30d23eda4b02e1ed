#include "job_templates/schema.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "tests/unit/job_templates/given.h"

namespace muster::job_templates::schema_test {
namespace {

using ::testing::HasSubstr;

TEST(TemplateSchema, UnknownKeysNameTheNearest) {
  EXPECT_EQ(mistake("scheduler: pbs\nlaunch:\n  dept: 3\n"),
            "t.yaml:3:3: unknown key 'dept' in launch; did you mean depth?");
  EXPECT_EQ(mistake("modles: [a]\n"), "t.yaml:1:1: unknown key 'modles'; did you mean modules?");
  EXPECT_EQ(mistake("bind_to: depth\n"), "t.yaml:1:1: unknown key 'bind_to'; did you mean launch.bind_to?");
  EXPECT_EQ(mistake("parameters: {n: {typ: int}}\n"),
            "t.yaml:1:18: unknown key 'typ' in parameters.n; did you mean type?");
  EXPECT_EQ(mistake("xyzzy: 1\n"), "t.yaml:1:1: unknown key 'xyzzy'");
}

TEST(TemplateSchema, TypesAndRanges) {
  EXPECT_EQ(mistake("node: {gpus: four}\n"), "t.yaml:1:14: node.gpus must be a whole number from 0 to 64, not 'four'");
  EXPECT_EQ(mistake("node: {gpus: 65}\n"), "t.yaml:1:14: node.gpus must be a whole number from 0 to 64, not '65'");
  EXPECT_EQ(mistake("node: {gpus: [1]}\n"), "t.yaml:1:14: node.gpus must be one value, not a list or keys");
  EXPECT_EQ(mistake("node: 3\n"), "t.yaml:1:7: node must hold keys, not a value");
  EXPECT_EQ(
      mistake("scheduler: slrum\n"),
      "t.yaml:1:12: scheduler must be one of none, cobalt, pbs, slurm, flux, lsf, not 'slrum'; did you mean slurm?");
  EXPECT_EQ(mistake("launch: {oversubscribe: maybe}\n"),
            "t.yaml:1:25: launch.oversubscribe must be true or false, not 'maybe'");
  EXPECT_EQ(mistake("modules: {a: b}\n"), "t.yaml:1:10: modules takes a list, not keys");
  EXPECT_EQ(mistake("modules: [[a]]\n"), "t.yaml:1:11: modules takes a list of values");
  EXPECT_EQ(mistake("scheduler+: pbs\n"), "t.yaml:1:1: scheduler is not a list: write scheduler without '+'");
  EXPECT_EQ(mistake("modules+: a\n"), "t.yaml:1:11: modules+ takes a list");
  EXPECT_EQ(mistake("environment: {\"A B\": 1}\n"),
            "t.yaml:1:15: 'A B' is not the name of a variable: write letters, digits and '_'");
  EXPECT_EQ(mistake("parameters: {Nodes: {type: int}}\n"),
            "t.yaml:1:14: 'Nodes' is not the name of a parameter: write small letters, digits and '-'");
  EXPECT_EQ(mistake("- a\n"), "t.yaml:1:1: keys are expected, as in 'scheduler: slurm' and 'launch:' below it");
  EXPECT_THAT(mistake("help: \"\\0\"\n"), HasSubstr("t.yaml:1:7: help holds a NUL byte"));
}

void check_documented(const KeyRule& rule, const std::string& path, const std::string& page) {
  for (const KeyRule& each : rule.below) {
    const std::string below = path.empty() ? std::string(each.key) : fmt::format("{}.{}", path, each.key);
    if (each.key.empty()) {
      check_documented(each, path + ".NAME", page);
      continue;
    }
    EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` |", below)));
    check_documented(each, below, page);
  }
}

TEST(TemplateSchema, EveryKeyIsDocumented) {
  const auto page = base::read_file("../../../docs/templates.md");
  ASSERT_TRUE(page.ok()) << page.status();
  check_documented(template_schema(), "", *page);
}

}  // namespace
}  // namespace muster::job_templates::schema_test
