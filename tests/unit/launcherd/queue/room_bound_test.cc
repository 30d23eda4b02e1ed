#include "launcherd/queue/room_bound.h"

#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "launcherd/queue/fit.h"
#include "launcherd/queue/job_queue.h"

namespace muster::launcherd::room_bound_test {
namespace {

std::shared_ptr<const model::NodeShape> node(int cores, int gpus, const std::string& name = "n1") {
  auto shape = std::make_shared<model::NodeShape>();
  for (int core = 0; core < cores; ++core) shape->cores.push_back({.socket = core * 2 / cores, .cpus = {core}});
  for (int gpu = 0; gpu < gpus; ++gpu)
    shape->gpus.push_back({.index = gpu, .uuid = fmt::format("GPU-{}-{}", name, gpu)});
  return shape;
}

SlotHost host(const std::string& name, int slots, std::shared_ptr<const model::NodeShape> shape = nullptr) {
  SlotHost host{.host = {.name = name, .slots = slots}, .slots = slots, .is_shared = true};
  host.shape = std::move(shape);
  return host;
}

JobNeed need(int np) {
  JobNeed need;
  need.request.np = np;
  return need;
}

TEST(RoomBound, CountsFreeSlotsOfHostsThatTheJobMayUse) {
  std::vector<SlotHost> hosts = {host("n1", 4, node(4, 0)), host("n2", 4, node(4, 0))};
  RoomBound bound(hosts);
  EXPECT_TRUE(bound.may_fit(need(8)));
  EXPECT_FALSE(bound.may_fit(need(9)));
  JobNeed named = need(4);
  named.request.hosts = {{.name = "n2"}};
  EXPECT_TRUE(bound.may_fit(named));
  hosts[1].used = 1;
  EXPECT_FALSE(bound.may_fit(named));
  EXPECT_TRUE(bound.may_fit(need(7)));
  hosts[1].is_drained = true;
  EXPECT_FALSE(bound.may_fit(need(5)));
}

TEST(RoomBound, CountsGpusThatNoJobHas) {
  std::vector<SlotHost> hosts = {host("n1", 4, node(4, 4))};
  RoomBound bound(hosts);
  JobNeed pairs = need(2);
  pairs.share.pinning.gpus_per_rank = 2;
  EXPECT_TRUE(bound.may_fit(pairs));
  hosts[0].use.add({.cpus = {0}, .devices = {"GPU-n1-0"}});
  EXPECT_FALSE(bound.may_fit(pairs)) << "three GPUs are free now, and the bound had counted four";
  pairs.request.np = 1;
  EXPECT_TRUE(bound.may_fit(pairs));
}

TEST(RoomBound, CountsThreadsOfOneSocketForADepth) {
  std::vector<SlotHost> hosts = {host("n1", 8, node(8, 0))};
  RoomBound bound(hosts);
  JobNeed deep = need(2);
  deep.share.pinning.bind_to = model::BindTo::kDepth;
  deep.share.pinning.depth = 3;
  EXPECT_TRUE(bound.may_fit(deep));
  hosts[0].use.add({.cpus = {0, 1}});
  EXPECT_FALSE(bound.may_fit(deep));
}

TEST(RoomBound, LeavesHostsWithoutGpusOutForAJobThatAsksForSome) {
  std::vector<SlotHost> hosts = {host("n1", 2, node(2, 2)), host("n2", 2, node(2, 0))};
  RoomBound bound(hosts);
  JobNeed one = need(3);
  one.share.pinning.gpu_bind = model::GpuBind::kOne;
  EXPECT_FALSE(bound.may_fit(one));
  one.request.np = 2;
  EXPECT_TRUE(bound.may_fit(one));
}

// Makes random hosts, jobs and running jobs.
class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {}

  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }

  std::vector<SlotHost> hosts() {
    std::vector<SlotHost> hosts;
    for (int i = 1 + pick(6); i > 0; --i) {
      const std::string name = fmt::format("n{}", i);
      SlotHost& each = hosts.emplace_back(host(name, 1 + pick(8)));
      if (pick(5) != 0) each.shape = node(2 * (1 + pick(8)), pick(3) == 0 ? 0 : pick(9), name);
      if (pick(15) == 0) each.source = SlotSource::kAwaited;
      each.is_drained = pick(15) == 0;
    }
    if (hosts.size() > 2 && pick(4) == 0) {  // two names of one host
      hosts[2].shape = hosts[0].shape;
      hosts[0].machine = hosts[2].machine = 0;
      hosts[0].slots_of_names = hosts[2].slots_of_names = hosts[0].slots + hosts[2].slots;
    }
    return hosts;
  }

  JobNeed job(const std::vector<SlotHost>& hosts) {
    JobNeed job = need(1 + pick(pick(3) == 0 ? 40 : 6));
    if (pick(3) == 0) {
      for (const SlotHost& each : hosts) {
        if (pick(2) == 0) job.request.hosts.push_back({.name = each.host.name});
        if (!job.request.hosts.empty() && pick(4) == 0) job.request.hosts.back().slots = 1 + pick(4);
      }
    }
    if (pick(5) == 0) job.request.ranks_per_node = 1 + pick(3);
    job.request.oversubscribe = pick(10) == 0;
    if (pick(3) == 0) job.request.map_by = model::MapBy::kNode;
    pin(job.share.pinning);
    if (pick(6) == 0) job.share.masks.cuda = pick(2) == 0 ? "1,2" : "";
    if (pick(10) == 0) job.share.role_masks.resize(1);
    return job;
  }

 private:
  void pin(model::Pinning& pinning) {
    using model::BindTo;
    using model::GpuBind;
    static constexpr GpuBind kGpuBinds[] = {GpuBind::kOrder, GpuBind::kOne, GpuBind::kTile, GpuBind::kNone};
    static constexpr BindTo kBinds[] = {BindTo::kShare, BindTo::kNone, BindTo::kCore, BindTo::kDepth, BindTo::kNuma};
    pinning.gpu_bind = kGpuBinds[pick(4)];
    pinning.bind_to = kBinds[pick(5)];
    pinning.depth = 1 + pick(8);
    if (pick(3) == 0) pinning.gpus_per_rank = pick(5);
    pinning.share_gpu = pick(6) == 0;
    if (pick(8) == 0) pinning.reserved_cores = {0};
    if (pick(12) != 0) return;
    pinning.gpu_order = model::GpuOrder::kList;
    pinning.gpu_list = {pick(4)};
  }

  std::mt19937 random_;
};

// Checks the rule on which the queue relies, while jobs start and use the slots.
TEST(RoomBound, NeverRefusesWhatFits) {
  int fitted = 0;
  int refused = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    std::vector<SlotHost> hosts = random.hosts();
    RoomBound bound(hosts);
    for (int number = 0; number < 40; ++number) {
      const JobNeed job = random.job(hosts);
      const bool may_fit = bound.may_fit(job);
      const auto placement = fit(job, hosts);
      EXPECT_TRUE(may_fit || !placement) << "seed " << seed << ", job " << number;
      if (placement) acquire_slots(*placement, hosts);
      fitted += placement ? 1 : 0;
      refused += may_fit ? 0 : 1;
    }
  }
  EXPECT_GT(fitted, 500);
  EXPECT_GT(refused, 500);
}

// Applies the queue's rules by fit() alone: returns the result for each waiting job, in order.
std::vector<int> plain_pass(const std::vector<JobNeed>& jobs, std::vector<SlotHost> hosts) {
  std::vector<int> started;
  for (std::size_t number = 0; number < jobs.size(); ++number) {
    const auto placement = fit(jobs[number], hosts);
    if (!placement) continue;
    acquire_slots(*placement, hosts);
    started.push_back(static_cast<int>(number));
  }
  return started;
}

TEST(RoomBound, ThePassDecidesAsWithoutIt) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    std::vector<SlotHost> hosts = random.hosts();
    std::vector<JobNeed> jobs;
    JobQueue queue;
    for (int number = 0; number < JobQueue::kMostOvertakes; ++number) {  // nothing is reserved for the first
      jobs.push_back(random.job(hosts));
      queue.add(*base::JobId::parse(fmt::format("aaaaaaa{}", static_cast<char>('a' + number))), 0,
                static_cast<std::uint64_t>(number), jobs.back());
    }
    const std::vector<int> expected = plain_pass(jobs, hosts);
    std::vector<int> started;
    for (const JobQueue::Start& start : queue.start(hosts)) started.push_back(start.id.str().back() - 'a');
    EXPECT_EQ(started, expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace muster::launcherd::room_bound_test
