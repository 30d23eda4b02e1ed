#include "cli/options/node_shapes.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::cli::node_shapes_test {
namespace {

// "socket/numa:cpus …", a core each.
std::string show(const model::NodeShape& shape) {
  std::string text;
  for (const model::CoreShape& core : shape.cores) {
    text +=
        fmt::format("{}{}/{}:{}", text.empty() ? "" : " ", core.socket, core.numa, model::format_cpu_list(core.cpus));
  }
  return text;
}

TEST(AssumedNode, SocketsCoresThreadsGpus) {
  const auto read = [](std::string_view text) {
    const auto node = parse_assumed_node(text);
    EXPECT_TRUE(node.ok()) << node.status();
    return node.ok() ? fmt::format("{} +{}", show(*node), node->gpus.size()) : "";
  };
  EXPECT_EQ(read("1x2"), "0/0:0 0/0:1 +0");
  EXPECT_EQ(read("2x2x2+4"), "0/0:0,4 0/0:1,5 1/1:2,6 1/1:3,7 +4");
  EXPECT_EQ(read("1x1+8"), "0/0:0 +8");
  const auto spread = parse_assumed_node("2x2x2+4");
  ASSERT_TRUE(spread.ok());
  EXPECT_EQ(spread->gpus[1].cpus, (std::vector<int>{0, 1, 4, 5}));
  EXPECT_EQ(spread->gpus[2].cpus, (std::vector<int>{2, 3, 6, 7}));
  EXPECT_EQ(spread->gpus[2].numa, 1);
  for (const char* bad : {"", "4", "x", "2x", "2x2x", "2x2x2x2", "0x2", "2x0", "2x2x0", "2x2+", "2x2+x", "-1x2",
                          "2 x 2", "65x1", "1x1025", "1x1x9", "1x1+65"}) {
    EXPECT_FALSE(parse_assumed_node(bad).ok()) << bad;
  }
}

// A made-up /sys/devices/system/cpu.
class NodeShapeOfKernel : public ::testing::Test {
 protected:
  void add(int cpu, int package, int numa, int core) const {
    root_.write(fmt::format("cpu{}/topology/physical_package_id", cpu), fmt::format("{}\n", package));
    root_.write(fmt::format("cpu{}/topology/core_id", cpu), fmt::format("{}\n", core));
    std::filesystem::create_directory(root_ / fmt::format("cpu{}/node{}", cpu, numa));
  }

  std::string read(const std::vector<int>& cpus) const { return show(read_node_shape(root_.path(), cpus)); }

  testing_support::TempDir root_;
};

TEST_F(NodeShapeOfKernel, GroupsThreadsIntoCoresAndCoresIntoSockets) {
  // Two sockets whose CPU numbers alternate, two threads a core, core numbers with holes.
  for (int cpu = 0; cpu < 8; ++cpu) add(cpu, cpu % 2, cpu % 2, (cpu % 4) / 2 * 8);
  EXPECT_EQ(read({0, 1, 2, 3, 4, 5, 6, 7}), "0/0:0,4 0/0:2,6 1/1:1,5 1/1:3,7");
  EXPECT_EQ(read({1, 4, 5}), "0/0:4 1/1:1,5");  // only what is allowed
}

TEST_F(NodeShapeOfKernel, CountsAnUnknownCpuAsACore) {
  add(0, 0, 0, 0);
  EXPECT_EQ(read({0, 1, 2}), "0/0:0 0/0:1 0/0:2");
  EXPECT_EQ(read({}), "");
}

}  // namespace
}  // namespace muster::cli::node_shapes_test
