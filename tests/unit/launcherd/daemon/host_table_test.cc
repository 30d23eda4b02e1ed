#include "launcherd/daemon/host_table.h"

#include <gtest/gtest.h>

namespace muster::launcherd::host_table_test {
namespace {

model::Placement ranks_on(const std::string& host, std::size_t count) {
  return model::place_as_listed({{.name = host}}, std::vector<std::size_t>(count, 0));
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
  EXPECT_FALSE(table.slots()[0].is_starting());
  model::Placement first = ranks_on("n1", 1);
  table.acquire(first);
  EXPECT_TRUE(table.slots()[0].is_starting());
  EXPECT_TRUE(table.learn("n1", shape, "n1 net:1"));
  EXPECT_FALSE(table.learn("n1", shape, "n1 net:1"));
  EXPECT_FALSE(table.slots()[0].is_starting());
  first.hosts[0].share = model::HostShare{.cpus = {0}, .devices = {"GPU-0"}};
  table.acquire_share("n1", {.cpus = {1}});
  table.release_share("n1", {.cpus = {1}});
  EXPECT_TRUE(table.slots()[0].use.cpus().empty());
  table.acquire_share("n1", *first.hosts[0].share);
  model::Placement second = ranks_on("n1", 1);
  second.hosts[0].share = model::HostShare{.cpus = {1}, .devices = {"GPU-1"}};
  table.acquire(second);
  table.replace({{.name = "n1", .slots = 8}});
  EXPECT_EQ(table.slots()[0].use.cpus(), (std::vector<int>{0, 1}));
  EXPECT_EQ(table.slots()[0].use.devices().size(), 2u);
  EXPECT_EQ(*table.slots()[0].shape, shape);
  table.release(first);
  EXPECT_EQ(table.slots()[0].use.cpus(), std::vector<int>{1});
  table.release(second);
  EXPECT_TRUE(table.slots()[0].use.devices().empty());
}

TEST(HostTable, NamesOfOneHostAreOneForWhatJobsHave) {
  HostTable table({{.name = "n1", .slots = 2}, {.name = "alias", .slots = 3}, {.name = "n2", .slots = 2}});
  model::Placement early = ranks_on("alias", 1);  // placed before the names were known to be one host
  early.hosts[0].share = model::HostShare{.cpus = {0}, .devices = {"GPU-0"}};
  table.acquire(early);
  model::NodeShape shape;
  shape.cores = {{.cpus = {0}}, {.cpus = {1}}};
  EXPECT_TRUE(table.learn("n1", shape, "n1 net:1"));
  EXPECT_TRUE(table.slots()[0].use.devices().empty());
  EXPECT_TRUE(table.learn("n2", shape, "n2 net:1"));
  EXPECT_TRUE(table.learn("alias", shape, "n1 net:1"));
  EXPECT_EQ(table.other_names("n1"), std::vector<std::string>{"alias"});
  EXPECT_TRUE(table.other_names("n2").empty());
  EXPECT_EQ(table.slots()[0].machine, table.slots()[1].machine);
  EXPECT_NE(table.slots()[0].machine, table.slots()[2].machine);
  EXPECT_EQ(table.slots()[0].all_slots(), 5);
  EXPECT_EQ(table.slots()[2].all_slots(), 2);
  table.acquire_share("n1", {.cpus = {1}, .devices = {"GPU-1"}});
  for (const int at : {0, 1}) {
    EXPECT_EQ(table.slots()[static_cast<std::size_t>(at)].use.cpus(), (std::vector<int>{0, 1})) << at;
    EXPECT_EQ(table.slots()[static_cast<std::size_t>(at)].use.devices().size(), 2u) << at;
  }
  EXPECT_TRUE(table.slots()[2].use.devices().empty());
  EXPECT_EQ(table.slots()[0].used, 0) << "slots go by names";
  table.replace({{.name = "n1", .slots = 2}, {.name = "n2", .slots = 2}});
  EXPECT_TRUE(table.slots()[0].use.devices().contains("GPU-0")) << "the job is there still";
  EXPECT_EQ(table.slots()[0].all_slots(), 2);
  EXPECT_TRUE(table.other_names("n1").empty());
  table.release(early);
  EXPECT_FALSE(table.slots()[0].use.devices().contains("GPU-0"));
}

TEST(HostTable, ANameThatIsAnotherHostNowHasItsOwnAgain) {
  HostTable table({{.name = "n1", .slots = 2}, {.name = "alias", .slots = 2}});
  table.learn("n1", {}, "n1 net:1");
  table.learn("alias", {}, "n1 net:1");
  table.acquire_share("n1", {.devices = {"GPU-0"}});
  EXPECT_FALSE(table.learn("alias", {}, "n1 net:1"));
  EXPECT_TRUE(table.learn("alias", {}, "n7 net:1"));
  EXPECT_TRUE(table.slots()[0].use.devices().contains("GPU-0"));
  EXPECT_TRUE(table.slots()[1].use.devices().empty());
  EXPECT_EQ(table.slots()[0].all_slots(), 2);
  EXPECT_TRUE(table.other_names("alias").empty());
}

TEST(HostTable, GpusOfAHostCountOnceHoweverManyNamesItHas) {
  HostTable table({{.name = "n1"}, {.name = "alias"}, {.name = "third", .slots = 1}});
  for (const char* const name : {"n1", "alias", "third"}) table.learn(name, {}, "n1 net:1");
  table.set_gpus("n1", 4);
  table.set_gpus("alias", 4);
  EXPECT_EQ(table.slots()[0].all_slots(), 5);
  EXPECT_EQ(table.slots()[2].all_slots(), 5);
}

SlotSource source(const HostTable& table, const std::string& name) {
  return (*table.find(name))->source;
}

TEST(HostTable, HostsWithoutSlotsHaveAsManyAsGpus) {
  HostTable table({{.name = "n1", .slots = 2}, {.name = "n2"}, {.name = "n3"}, {.name = "n3"}});
  EXPECT_EQ(source(table, "n1"), SlotSource::kList);
  EXPECT_EQ(source(table, "n3"), SlotSource::kList);  // repeated entries, as in a scheduler's file, give slots
  EXPECT_EQ((*table.find("n3"))->slots, 2);
  ASSERT_EQ(table.awaited().size(), 1u);
  EXPECT_EQ(table.awaited().front().name, "n2");
  EXPECT_EQ(free_on(table, "n2"), 0);  // no job starts there before its GPUs are known
  EXPECT_TRUE(table.set_gpus("n2", 4));
  EXPECT_EQ(free_on(table, "n2"), 4);
  EXPECT_EQ((*table.find("n2"))->host.slots, 4);
  EXPECT_EQ(table.count_awaited(), 0);
  EXPECT_EQ(table.message("n2")->slots(), 4);
  EXPECT_FALSE(table.set_gpus("n2", 4));  // no change
  EXPECT_FALSE(table.set_gpus("n1", 8));  // the list gives the slots
  EXPECT_FALSE(table.set_gpus("n9", 8));
  EXPECT_EQ(table.total_slots(), 8);
}

TEST(HostTable, AHostWithoutGpusHasOneSlot) {
  HostTable table({{.name = "n1"}});
  EXPECT_TRUE(table.set_gpus("n1", 0));  // the host accepts jobs now
  EXPECT_EQ(free_on(table, "n1"), 1);
}

TEST(HostTable, WhatWasCountedHoldsForAnotherList) {
  HostTable table({{.name = "n1"}, {.name = "n2"}});
  table.set_gpus("n1", 4);
  table.replace({{.name = "n1"}, {.name = "n3"}});
  EXPECT_EQ(free_on(table, "n1"), 4);
  EXPECT_EQ(source(table, "n3"), SlotSource::kAwaited);
  table.replace({{.name = "n1", .slots = 2}});
  EXPECT_EQ(free_on(table, "n1"), 2);
}

TEST(HostTable, AHostThatCannotBeAskedCountsAsOneSlot) {
  HostTable table({{.name = "n1"}});
  table.set_down("n1", true);
  EXPECT_EQ(source(table, "n1"), SlotSource::kUnknown);
  EXPECT_EQ(table.count_awaited(), 0);
  EXPECT_EQ(table.total_slots(), 1);
  EXPECT_EQ(free_on(table, "n1"), 0);
  table.set_down("n1", false);
  EXPECT_EQ(free_on(table, "n1"), 1);
  EXPECT_TRUE(table.set_gpus("n1", 2));  // its agent comes later than others
  EXPECT_EQ(free_on(table, "n1"), 2);
}

TEST(HostTable, AnotherListKeepsWhatIsUsedAndDrained) {
  HostTable table({{.name = "n1", .slots = 4}, {.name = "n2", .slots = 4}});
  const model::Placement running = ranks_on("n1", 3);
  table.acquire(running);
  table.apply(*table.drained("n2", "fan", {}));
  table.replace({{.name = "n1", .slots = 2}});
  EXPECT_EQ(free_on(table, "n1"), 0);  // jobs use more slots than the host has now
  table.replace({{.name = "n2", .slots = 4}, {.name = "n1", .slots = 8}});
  EXPECT_EQ(free_on(table, "n1"), 5);
  EXPECT_EQ(free_on(table, "n2"), 0);
  EXPECT_EQ(table.message("n2")->reason(), "fan");
  EXPECT_EQ(table.message("n1")->jobs(), 1);
  table.release(running);
  EXPECT_EQ(free_on(table, "n1"), 8);
  EXPECT_EQ(table.message("n1")->jobs(), 0);
  table.apply(*table.resumed("n2", {}));
  EXPECT_EQ(free_on(table, "n2"), 4);
}

TEST(HostTable, AJobThatOversubscribesGivesBackWhatItTook) {
  HostTable table({{.name = "n1", .slots = 2}});
  const model::Placement crowd = ranks_on("n1", 6);
  table.acquire(crowd);
  EXPECT_EQ(free_on(table, "n1"), 0);
  EXPECT_EQ(table.message("n1")->used_slots(), 2);
  table.replace({{.name = "n1", .slots = 3}});
  table.release(crowd);
  EXPECT_EQ(free_on(table, "n1"), 3);
}

TEST(HostTable, AHostThatIsNotThereIsNotFound) {
  const HostTable table({{.name = "n1"}});
  EXPECT_EQ(table.drained("n2", "", {}).status().code(), base::Code::kNotFound);
  EXPECT_EQ(table.resumed("", {}).status().code(), base::Code::kNotFound);
  EXPECT_EQ(table.message("n1\n").status().code(), base::Code::kNotFound);
}

}  // namespace
}  // namespace muster::launcherd::host_table_test
