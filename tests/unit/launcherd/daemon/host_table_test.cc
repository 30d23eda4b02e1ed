#include "launcherd/daemon/host_table.h"

#include <gtest/gtest.h>

namespace muster::launcherd {
namespace {

model::Placement ranks_on(const std::string& host, std::size_t count) {
  return model::place_as_told({{.name = host}}, std::vector<std::size_t>(count, 0));
}

int free_on(const HostTable& table, const std::string& name) {
  for (const SlotHost& host : table.slots()) {
    if (host.host.name == name) return host.free();
  }
  return -1;
}

TEST(HostTable, RepeatsAddTheirSlots) {
  const HostTable table({{.name = "n1", .slots = 2}, {.name = "n2"}, {.name = "n1", .slots = 3}});
  ASSERT_EQ(table.slots().size(), 2u);
  EXPECT_EQ(table.slots()[0].slots, 5);
  EXPECT_EQ(table.slots()[1].slots, 1);
  EXPECT_EQ(table.total_slots(), 6);
}

TEST(HostTable, KeepsWhatJobsHaveOfAHostAlsoOverAnotherList) {
  HostTable table({{.name = "n1", .slots = 4}});
  model::NodeShape shape;
  shape.cores = {{.cpus = {0}}, {.cpus = {1}}};
  EXPECT_FALSE(table.slots()[0].is_asked());
  model::Placement first = ranks_on("n1", 1);
  table.take(first);
  EXPECT_TRUE(table.slots()[0].is_asked());
  EXPECT_TRUE(table.learn("n1", shape));
  EXPECT_FALSE(table.learn("n1", shape));
  EXPECT_FALSE(table.slots()[0].is_asked());
  first.hosts[0].share = model::HostShare{.cpus = {0}, .devices = {"GPU-0"}};
  table.take_share("n1", *first.hosts[0].share);
  model::Placement second = ranks_on("n1", 1);
  second.hosts[0].share = model::HostShare{.cpus = {1}, .devices = {"GPU-1"}};
  table.take(second);
  table.replace({{.name = "n1", .slots = 8}});
  EXPECT_EQ(table.slots()[0].use.cpus(), (std::vector<int>{0, 1}));
  EXPECT_EQ(table.slots()[0].use.devices().size(), 2u);
  EXPECT_EQ(*table.slots()[0].shape, shape);
  table.give(first);
  EXPECT_EQ(table.slots()[0].use.cpus(), std::vector<int>{1});
  table.give(second);
  EXPECT_TRUE(table.slots()[0].use.devices().empty());
}

TEST(HostTable, AnotherListKeepsWhatIsUsedAndDrained) {
  HostTable table({{.name = "n1", .slots = 4}, {.name = "n2", .slots = 4}});
  const model::Placement running = ranks_on("n1", 3);
  table.take(running);
  table.apply(*table.drained("n2", "fan", {}));
  table.replace({{.name = "n1", .slots = 2}});
  EXPECT_EQ(free_on(table, "n1"), 0);  // more is used than there is now
  table.replace({{.name = "n2", .slots = 4}, {.name = "n1", .slots = 8}});
  EXPECT_EQ(free_on(table, "n1"), 5);
  EXPECT_EQ(free_on(table, "n2"), 0);
  EXPECT_EQ(table.message("n2")->reason(), "fan");
  EXPECT_EQ(table.message("n1")->jobs(), 1);
  table.give(running);
  EXPECT_EQ(free_on(table, "n1"), 8);
  EXPECT_EQ(table.message("n1")->jobs(), 0);
  table.apply(*table.resumed("n2", {}));
  EXPECT_EQ(free_on(table, "n2"), 4);
}

TEST(HostTable, AJobThatOversubscribesGivesBackWhatItTook) {
  HostTable table({{.name = "n1", .slots = 2}});
  const model::Placement crowd = ranks_on("n1", 6);
  table.take(crowd);
  EXPECT_EQ(free_on(table, "n1"), 0);
  EXPECT_EQ(table.message("n1")->used_slots(), 2);
  table.replace({{.name = "n1", .slots = 3}});
  table.give(crowd);
  EXPECT_EQ(free_on(table, "n1"), 3);
}

TEST(HostTable, AHostThatIsNotThereIsNotFound) {
  const HostTable table({{.name = "n1"}});
  EXPECT_EQ(table.drained("n2", "", {}).status().code(), base::Code::kNotFound);
  EXPECT_EQ(table.resumed("", {}).status().code(), base::Code::kNotFound);
  EXPECT_EQ(table.message("n1\n").status().code(), base::Code::kNotFound);
}

}  // namespace
}  // namespace muster::launcherd
