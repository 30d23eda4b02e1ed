// What the commands print as JSON is the JSON form of messages of muster.v1: it parses back into them, with no field
// left over.
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "cli/hosts/dry_run.h"
#include "proto/convert.h"

namespace muster::cli::json_test {
namespace {

TEST(Json, ADryRunIsAPlacement) {
  const auto placement = model::place({.hosts = *model::parse_host_list("n1:2,n2:1", "-H")});
  ASSERT_TRUE(placement.ok());
  const auto node = parse_assumed_node("1x2+1");
  ASSERT_TRUE(node.ok());
  const auto hosts = plan_dry_run(*placement, {*node, std::nullopt}, {}, {});
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  v1::Placement parsed;
  const auto status = google::protobuf::util::JsonStringToMessage(dry_run_json(*placement, *hosts), &parsed);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(parsed.hosts(0).ranks(0).gpus_size(), 1);
  EXPECT_EQ(parsed.hosts(0).ranks(1).cpus_size(), 1);
  EXPECT_EQ(parsed.hosts(1).ranks(0).gpus_size(), 0);
  for (v1::PlacedHost& host : *parsed.mutable_hosts()) {
    for (v1::PlacedRank& rank : *host.mutable_ranks()) {
      rank.clear_cpus();
      rank.clear_gpus();
    }
  }
  EXPECT_EQ(parsed.SerializeAsString(), proto::to_proto(*placement).SerializeAsString());
}

}  // namespace
}  // namespace muster::cli::json_test
