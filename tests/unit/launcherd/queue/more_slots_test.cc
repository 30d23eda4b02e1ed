#include "launcherd/queue/more_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::launcherd::more_slots_test {
namespace {

SlotHost slot_host(const char* name, int slots, int used) {
  return {.host = {.name = name, .slots = slots}, .slots = slots, .used = used};
}

// A job with two ranks on each host that is named.
model::Placement two_on(std::vector<model::HostSpec> hosts) {
  std::vector<std::size_t> host_of_rank;
  for (std::size_t i = 0; i < hosts.size(); ++i) host_of_rank.insert(host_of_rank.end(), 2, i);
  return model::place_as_listed(hosts, host_of_rank);
}

JobNeed need_of_four() {
  JobNeed need;
  need.request.np = 4;
  return need;
}

std::string listed(const std::vector<model::HostSpec>& hosts) {
  std::vector<std::string> words;
  for (const model::HostSpec& host : hosts) words.push_back(fmt::format("{}:{}", host.name, host.slots.value_or(-1)));
  return base::join(words, " ");
}

TEST(MoreSlots, AreTheFreeOnesOfAllHosts) {
  const std::vector<SlotHost> hosts = {slot_host("n1", 4, 2), slot_host("n2", 4, 4), slot_host("n3", 4, 1)};
  const model::Placement own = two_on({{.name = "n1"}, {.name = "n2"}});
  EXPECT_EQ(listed(more_slots(need_of_four(), own, hosts, 100)), "n1:2 n3:3");
  EXPECT_EQ(listed(more_slots(need_of_four(), own, hosts, 1)), "n1:1 n3:1");
}

TEST(MoreSlots, HostsThatAcceptNoJobHaveNone) {
  std::vector<SlotHost> hosts = {slot_host("n1", 2, 0), slot_host("n2", 2, 0), slot_host("n3", 2, 0)};
  hosts[0].is_drained = true;
  hosts[1].is_down = true;
  hosts[2].source = SlotSource::kAwaited;
  EXPECT_EQ(listed(more_slots(need_of_four(), {}, hosts, 100)), "");
}

TEST(MoreSlots, TheJobsOwnLimitsHold) {
  const std::vector<SlotHost> hosts = {slot_host("n1", 8, 2), slot_host("n2", 8, 0), slot_host("n3", 8, 0)};
  const model::Placement own = two_on({{.name = "n1"}});
  JobNeed need = need_of_four();
  need.request.ranks_per_node = 3;
  EXPECT_EQ(listed(more_slots(need, own, hosts, 100)), "n1:1 n2:3 n3:3");
  need.request.ranks_per_node = 0;
  need.request.hosts = {{.name = "n1", .slots = 4}, {.name = "n3"}};
  EXPECT_EQ(listed(more_slots(need, own, hosts, 100)), "n1:2 n3:8") << "only hosts that the job names";
}

TEST(MoreSlots, AHostGivesOnlyRanksThatGetTheirGpus) {
  std::vector<SlotHost> hosts = {slot_host("n1", 4, 0)};
  model::NodeShape node;
  for (int i = 0; i < 4; ++i) node.cores.push_back({.cpus = {i}});
  for (int i = 0; i < 2; ++i) node.gpus.push_back({.index = i, .uuid = "GPU-" + std::to_string(i)});
  hosts[0].is_shared = true;
  hosts[0].shape = std::make_shared<const model::NodeShape>(node);
  JobNeed need = need_of_four();
  need.share.pinning = {.gpu_bind = model::GpuBind::kOne, .gpus_per_rank = 1};
  EXPECT_EQ(listed(more_slots(need, {}, hosts, 100)), "n1:2");
}

TEST(MostSlots, AreThoseOfIdleHostsThatAcceptJobs) {
  std::vector<SlotHost> hosts = {slot_host("n1", 4, 4), slot_host("n2", 4, 4)};
  hosts[1].is_down = true;
  const model::Placement own = two_on({{.name = "n1"}});
  EXPECT_EQ(listed(more_slots(need_of_four(), own, hosts, 100)), "");
  EXPECT_EQ(listed(most_slots(need_of_four(), own, hosts, 100)), "n1:2 n2:4");
}

}  // namespace
}  // namespace muster::launcherd::more_slots_test
