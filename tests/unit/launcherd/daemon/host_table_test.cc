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
