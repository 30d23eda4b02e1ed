#include "proto/convert.h"

#include <csignal>

#include <gtest/gtest.h>

namespace muster::proto::convert_test {
namespace {

TEST(Convert, NodeShapeBothWays) {
  model::NodeShape shape;
  shape.memory_mib = 4096;
  shape.cores = {{0, 0, {0, 4}}, {1, 1, {2, 6}}};
  shape.gpus = {{.uuid = "GPU-1",
                 .model = "NVIDIA H200",
                 .pci = "0000:1b:00.0",
                 .numa = 0,
                 .cpus = {0, 4},
                 .memory_mib = 144'384,
                 .is_divided = true,
                 .parts = {{.uuid = "MIG-1", .model = "1g.18gb", .memory_mib = 16'384}}},
                {.vendor = model::GpuVendor::kAmd, .index = 3},
                {.vendor = model::GpuVendor::kIntel, .index = 1, .tiles = 2}};
  shape.gpu_masks = {.cuda = "1", .hip = "", .ze = "0.1", .ze_hierarchy = "COMPOSITE"};
  v1::Hello hello;
  set_node_shape(shape, hello);
  EXPECT_EQ(node_shape_of(hello), shape);
  hello.add_cores()->set_socket(3);  // a core without a hardware thread is nobody's
  hello.add_gpus()->set_index(7);    // nor is a GPU of a vendor that this build does not know
  EXPECT_EQ(node_shape_of(hello), shape);
  for (int i = 0; i < 3000; ++i) hello.add_gpus()->set_vendor(v1::GPU_VENDOR_AMD);
  EXPECT_EQ(node_shape_of(hello).gpus.size(), 1024U);
}

TEST(Convert, EnvironmentKeepsBytes) {
  const EnvList list = {{"A", "1"}, {"B", std::string("\xff\n'$x", 5)}, {"C", ""}};
  v1::Launch launch;
  set_environment(list, *launch.mutable_environment());
  EXPECT_EQ(environment_of(launch.environment()), list);
}

TEST(Convert, RankEndBothWays) {
  for (const auto kind : {model::EndKind::kExited, model::EndKind::kSignalled, model::EndKind::kStartFailed,
                          model::EndKind::kStopped, model::EndKind::kHostLost}) {
    model::RankEnd end;
    end.rank = 3;
    end.host = "n2";
    end.pid = 77;
    end.pid_inside = 5;
    end.kind = kind;
    end.exit_code = 4;
    end.signal = 9;
    end.out_of_memory = true;
    end.detail = "why";
    const model::RankEnd back = rank_end_of(to_proto(end));
    EXPECT_EQ(back.rank, 3);
    EXPECT_EQ(back.host, "n2");
    EXPECT_EQ(back.pid, 77);
    EXPECT_EQ(back.pid_inside, 5);
    EXPECT_EQ(back.kind, kind);
    EXPECT_EQ(back.exit_code, 4);
    EXPECT_EQ(back.signal, 9);
    EXPECT_TRUE(back.out_of_memory);
    EXPECT_EQ(back.detail, "why");
    EXPECT_FALSE(back.abort_code || back.without_finalize);
    EXPECT_FALSE(to_proto(end).has_facts());
    end.facts = {.peak_memory_mib = 1,
                 .free_memory_mib = 2,
                 .program = "/p",
                 .core_file = "/c",
                 .core_note = "note",
                 .kernel_line = "line"};
    EXPECT_EQ(rank_end_of(to_proto(end)).facts, end.facts);
    end.abort_code = 0;
    end.without_finalize = true;
    EXPECT_EQ(rank_end_of(to_proto(end)).abort_code, 0);
    EXPECT_TRUE(rank_end_of(to_proto(end)).without_finalize);
    EXPECT_FALSE(rank_end_of(to_proto(end)).spawn_refused);
    end.spawn_refused = true;
    EXPECT_TRUE(rank_end_of(to_proto(end)).spawn_refused);
  }
  v1::RankEnd newer;
  newer.set_kind(static_cast<v1::RankEndKind>(99));
  EXPECT_EQ(rank_end_of(newer).kind, model::EndKind::kStartFailed);
}

TEST(Convert, AnAbortIsTheRanksOwnEndHoweverItEnded) {
  v1::RankExited exited;
  exited.set_wait_status(SIGKILL);
  exited.set_stopped_by_us(true);
  EXPECT_EQ(rank_end_of(exited).kind, model::EndKind::kStopped);
  exited.set_abort_code(256);
  const model::RankEnd end = rank_end_of(exited);
  EXPECT_EQ(end.kind, model::EndKind::kExited);
  EXPECT_EQ(end.abort_code, 256);
  EXPECT_FALSE(end.spawn_refused);
  exited.set_spawn_refused(true);
  EXPECT_TRUE(rank_end_of(exited).spawn_refused);
  EXPECT_EQ(end.exit_code, 1);
}

TEST(Convert, WithoutFinalizeCountsForWhoEndedByItself) {
  v1::RankExited exited;
  exited.set_without_finalize(true);
  EXPECT_TRUE(rank_end_of(exited).failed());
  exited.set_stopped_by_us(true);
  EXPECT_FALSE(rank_end_of(exited).without_finalize);
}

TEST(Convert, PlacementNamesEveryRank) {
  model::PlacementRequest request;
  request.hosts = *model::parse_host_list("a:2,b:1", "-H");
  const v1::Placement placement = to_proto(*model::place(request));
  EXPECT_EQ(placement.size(), 3);
  ASSERT_EQ(placement.hosts_size(), 2);
  EXPECT_EQ(placement.hosts(0).name(), "a");
  EXPECT_EQ(placement.hosts(0).ranks(1).rank(), 1);
  EXPECT_EQ(placement.hosts(0).ranks(0).cross_size(), 2);
  EXPECT_EQ(placement.hosts(1).ranks(0).host_index(), 1);
}

TEST(Convert, LimitsKeepInfinity) {
  v1::Launch launch;
  const std::vector<model::Ulimit> limits = {{7, 4096, model::Ulimit::kUnlimited}, {3, 0, 0}};
  set_limits(limits, launch);
  EXPECT_EQ(limits_of(launch), limits);
}

}  // namespace
}  // namespace muster::proto::convert_test
