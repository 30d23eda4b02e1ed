#include "cli/hosts/dry_run.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/options/parsed.h"

namespace muster::cli::dry_run_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

model::Placement placed(const std::string& hosts, int np) {
  const auto placement = model::place({.hosts = *model::parse_host_list(hosts, "-H"), .np = np});
  EXPECT_TRUE(placement.ok()) << placement.status();
  return *placement;
}

std::vector<DryHost> planned(const model::Placement& placement,
                             const std::vector<std::optional<model::NodeShape>>& shapes, const model::JobSpec& job) {
  auto hosts = plan_dry_run(placement, shapes, job, {});
  EXPECT_TRUE(hosts.ok()) << hosts.status();
  return hosts.ok() ? *std::move(hosts) : std::vector<DryHost>();
}

TEST(DryRun, TableShowsPlaceCoresAndGpu) {
  const model::Placement placement = placed("n1:4,al@n2:2", 6);
  const auto node = parse_assumed_node("2x4x2+4");
  ASSERT_TRUE(node.ok());
  EXPECT_EQ("\n" + format_dry_run(planned(placement, {*node, *node}, {})), R"(
  rank  host       local      cross  gpu  cpus
     0  n1           0/4        0/2    0  0-1,8-9
     1  n1           1/4        0/2    1  2-3,10-11
     2  n1           2/4        0/1    2  4-5,12-13
     3  n1           3/4        0/1    3  6-7,14-15
     4  al@n2        0/2        1/2    0  0-3,8-11
     5  al@n2        1/2        1/2    2  4-7,12-15
)");
}

TEST(DryRun, MarksUnknownAndUnboundCores) {
  const model::Placement placement = placed("n1:1,n2:3", 4);
  const auto node = parse_assumed_node("1x2+1");
  ASSERT_TRUE(node.ok());
  EXPECT_EQ("\n" + format_dry_run(planned(placement, {std::nullopt, *node}, {})), R"(
  rank  host      local      cross  gpu  cpus
     0  n1          0/1        0/2    -  -
     1  n2          0/3        1/2    0  all
     2  n2          1/3        0/1    0  all
     3  n2          2/3        0/1    0  all
)");
  model::JobSpec unbound;
  unbound.pinning.bind_to = model::BindTo::kNone;
  EXPECT_THAT(format_dry_run(planned(placement, {*node, *node}, unbound)), HasSubstr("0/2    0  all"));
}

TEST(DryRun, ShowsTheGpusThatTheJobSees) {
  const model::Placement placement = placed("n1:2", 2);
  auto node = *parse_assumed_node("2x4+4");
  std::ranges::swap(node.gpus[0].cpus, node.gpus[3].cpus);
  const auto gpus = [&](model::GpuBind gpu_bind, std::vector<std::string> named) {
    model::JobSpec job;
    job.pinning.gpu_bind = gpu_bind;
    job.environment.named = std::move(named);
    const auto hosts = planned(placement, {node}, job);
    std::string text;
    for (const DryRank& rank : hosts[0].ranks) text += rank.gpus.empty() ? "- " : fmt::format("{} ", rank.gpus.front());
    return text;
  };
  using model::GpuBind;
  EXPECT_EQ(gpus(GpuBind::kOrder, {}), "1 0 ");
  EXPECT_EQ(gpus(GpuBind::kOne, {}), "1 0 ");
  EXPECT_EQ(gpus(GpuBind::kNone, {}), "- - ");
  EXPECT_EQ(gpus(GpuBind::kOrder, {"CUDA_VISIBLE_DEVICES=2,3"}), "3 2 ");
  EXPECT_EQ(gpus(GpuBind::kOrder, {"CUDA_VISIBLE_DEVICES="}), "- - ");
}

TEST(DryRun, Json) {
  const model::Placement placement = placed("n1:1,n2:1", 2);
  const auto node = parse_assumed_node("1x2+1");
  ASSERT_TRUE(node.ok());
  EXPECT_EQ(dry_run_json(placement, planned(placement, {*node, std::nullopt}, {})),
            R"({"size":2,"hosts":[{"name":"n1","slots":1,"ranks":[)"
            R"({"rank":0,"local_rank":0,"local_size":1,"cross_rank":0,"cross_size":2,"host_index":0,)"
            R"("cpus":[0,1],"gpus":[0],"tiles":[]}]},{"name":"n2","slots":1,"ranks":[)"
            R"({"rank":1,"local_rank":0,"local_size":1,"cross_rank":1,"cross_size":2,"host_index":1,)"
            R"("cpus":[],"gpus":[],"tiles":[]}]}],"roles":[]})"
            "\n");
}

TEST(DryRun, ShowsTilesAndRefusesTooManyRanks) {
  const model::Placement placement = placed("n1:3", 3);
  const auto node = parse_assumed_node("2x4x2+2x2");
  ASSERT_TRUE(node.ok());
  model::JobSpec job;
  job.pinning = {.bind_to = model::BindTo::kDepth, .depth = 2, .gpu_bind = model::GpuBind::kTile};
  const auto hosts = planned(placement, {*node}, job);
  EXPECT_EQ("\n" + format_dry_run(hosts), R"(
  rank  host      local      cross  gpu  cpus
     0  n1          0/3        0/1  0.0  0-1
     1  n1          1/3        0/1  0.1  2-3
     2  n1          2/3        0/1  1.0  4-5
)");
  EXPECT_THAT(dry_run_json(placement, hosts), HasSubstr(R"("cpus":[4,5],"gpus":[1],"tiles":["1.0"]})"));
  job.pinning.depth = 5;
  EXPECT_EQ(plan_dry_run(placement, {*node}, job, {}).status().message(),
            "n1: --bind-to depth: 3 ranks of 5 hardware threads do not fit on 8 cores of 2 sockets: only 2 ranks do, "
            "because no rank spans two sockets; use fewer ranks per host, or another --depth or --hyperthreads");
}

TEST(DryRun, KeepsTheRemarksOfTheLaunch) {
  const auto node = parse_assumed_node("1x4+2");
  ASSERT_TRUE(node.ok());
  model::JobSpec job;
  job.environment.named = {"CUDA_VISIBLE_DEVICES=all"};
  const model::Placement placement = placed("n1:1,n2:1", 2);
  const auto hosts = planned(placement, {*node, std::nullopt}, job);
  EXPECT_THAT(hosts.at(0).remarks,
              ElementsAre(HasSubstr("CUDA_VISIBLE_DEVICES is 'all', which leaves none of its 2 GPUs")));
  EXPECT_THAT(hosts.at(1).remarks, IsEmpty());  // nobody knows what it has
  const model::Placement three = placed("n1:3", 3);
  EXPECT_THAT(planned(three, {*node}, {}).at(0).remarks, ElementsAre(HasSubstr("3 ranks but 2 GPUs: ")));
}

TEST(DryRun, OptionsBelongTogether) {
  const ParsedHvdrun parsed = parse({"--dry-run", "--json", "--assume-node", "2x4+2", "-np", "4"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_TRUE(parsed.options.dry_run.is_on && parsed.options.dry_run.json);
  EXPECT_EQ(parsed.options.dry_run.assumed_node->gpus.size(), 2U);
  EXPECT_FALSE(parse({"--dry-run", "prog", "--json"}).options.dry_run.json);
  EXPECT_THAT(parse({"--json", "p"}).text, HasSubstr("--json belongs to --dry-run"));
  EXPECT_THAT(parse({"--assume-node", "1x1", "p"}).text, HasSubstr("--assume-node belongs to --dry-run"));
  EXPECT_THAT(parse({"--probe", "p"}).text, HasSubstr("--probe belongs to --dry-run"));
  EXPECT_TRUE(parse({"--dry-run", "--probe", "p"}).options.dry_run.probe);
  EXPECT_THAT(parse({"--dry-run", "--probe", "--assume-node", "1x1", "p"}).text,
              HasSubstr("--assume-node and --probe exclude each other"));
  EXPECT_THAT(parse({"--dry-run", "--assume-node", "big", "p"}).text,
              HasSubstr("--assume-node: unknown template 'big'"));
}

}  // namespace
}  // namespace muster::cli::dry_run_test
