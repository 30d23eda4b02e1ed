// An elastic job's driver under random faults, with simulated workers. It checks the rules that no fault may
// break, and that the job gets out of every state once the faults end.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "launcherd/elastic/elastic_driver.h"

namespace muster::launcherd::elastic_soak {

using namespace std::chrono_literals;

enum class Life { kImporting, kJoining, kTraining, kAsking, kLeaving, kStopping };

struct Worker {
  Life life = Life::kImporting;
};

class Soak {
 public:
  explicit Soak(unsigned seed) : random_(seed) {
    ElasticLimits limits{.np = 2, .min_np = 1, .max_np = 7, .cooldown = {{1s, 4s}}};
    driver_ = std::make_unique<ElasticDriver>(limits, time(), [this] { return chance(1, 2) ? 0.9 : 0.1; });
    change_hosts();
  }

  // One step of a random worker, of time, or a fault.
  void step(bool has_faults) {
    if (has_faults && chance(1, 40)) fault();
    act();
    const auto at = pick();
    if (at != workers_.end()) advance(at);
    act();
    if (chance(1, 4)) pass(std::chrono::milliseconds(random_() % 1500));
    act();
  }

  bool is_over() const { return is_over_; }
  ElasticPhase phase() const { return driver_->phase(); }
  int released() const { return released_; }
  // All that any real worker or agent would do by itself ends within this number of steps.
  void settle() {
    for (int i = 0; i < 800 && !is_over_; ++i) step(false);
  }

 private:
  using Workers = std::map<ElasticSlot, Worker>;

  ElasticTime time() const { return {clock_.now(), clock_.wall()}; }
  bool chance(unsigned of, unsigned all) { return random_() % all < of; }

  Workers::iterator pick() {
    if (workers_.empty()) return workers_.end();
    return std::next(workers_.begin(), static_cast<std::ptrdiff_t>(random_() % workers_.size()));
  }

  void advance(Workers::iterator at) {
    const ElasticSlot slot = at->first;
    switch (at->second.life) {
      case Life::kImporting: {
        const PlannedSlot* const planned = find_slot(driver_->generation().plan, slot);
        ASSERT_NE(planned, nullptr);
        at->second.life = Life::kJoining;
        return driver_->on_first_put(driver_->generation().number, planned->plan.rank, time());
      }
      case Life::kTraining:
        if (!is_broken_) return;
        at->second.life = Life::kAsking;
        return driver_->on_rank_and_size(slot, time());
      case Life::kLeaving:
      case Life::kStopping:
        return end(at, 134);
      case Life::kJoining:
      case Life::kAsking:
        return;
    }
  }

  void end(Workers::iterator at, int code) {
    const ElasticSlot slot = at->first;
    if (at->second.life == Life::kTraining) is_broken_ = true;
    workers_.erase(at);
    driver_->on_exit(slot, {.exit_code = code}, time());
  }

  void fault() {
    if (chance(1, 3)) return change_hosts();
    const auto at = pick();
    if (at == workers_.end()) return;
    if (chance(3, 4)) return end(at, chance(1, 2) ? 134 : 1);
    const std::string host = at->first.host;
    std::erase_if(workers_, [&](const auto& each) {
      if (each.first.host != host) return false;
      if (each.second.life == Life::kTraining) is_broken_ = true;
      return true;
    });
    driver_->on_host_lost(host, time());
  }

  void change_hosts() {
    std::vector<ElasticHost> hosts;
    for (const char* name : {"a", "b", "c", "d"}) {
      if (chance(7, 8)) hosts.push_back({name, 1 + static_cast<int>(random_() % 3)});
    }
    driver_->set_hosts(hosts, time());
  }

  void pass(base::Duration by) {
    const base::MonotonicTime end = clock_.now() + by;
    int ticks = 0;
    while (driver_->deadline() && *driver_->deadline() <= end) {
      ASSERT_LT(++ticks, 1000) << "the deadline does not move";
      if (*driver_->deadline() > clock_.now()) clock_.advance(*driver_->deadline() - clock_.now());
      driver_->tick(time());
      act();
    }
    if (end > clock_.now()) clock_.advance(end - clock_.now());
  }

  void act() {
    for (const ElasticAction& each : driver_->take_actions()) {
      ASSERT_FALSE(is_over_) << "an action after the end";
      std::visit([this](const auto& action) { carry_out(action); }, each);
    }
  }

  void carry_out(const BeginGeneration& begin) {
    EXPECT_EQ(begin.generation.number, last_generation_ + 1);
    last_generation_ = begin.generation.number;
    plan_ = begin.generation.plan;
    for (const PlannedSlot& each : begin.to_start) {
      EXPECT_TRUE(workers_.emplace(each.slot, Worker{}).second) << format_slot(each.slot) << " has a process already";
      EXPECT_FALSE(has_state_ && each.plan.rank == 0) << "rank 0 has no state";
    }
    for (const PlannedSlot& each : begin.generation.plan) EXPECT_TRUE(workers_.contains(each.slot));
    EXPECT_LE(begin.generation.plan.size(), 7U);
  }

  void carry_out(const ReleaseAnswers& release) {
    for (const SlotAnswer& answer : release.answers) {
      const auto at = workers_.find(answer.slot);
      ASSERT_NE(at, workers_.end()) << "an answer to nobody";
      EXPECT_TRUE(at->second.life == Life::kAsking || at->second.life == Life::kLeaving);
      at->second.life = answer.plan ? Life::kTraining : Life::kLeaving;
      if (answer.plan) {
        EXPECT_EQ(*answer.plan, find_slot(plan_, answer.slot)->plan);
      }
    }
    for (const PlannedSlot& each : plan_) {
      const auto at = workers_.find(each.slot);
      ASSERT_NE(at, workers_.end()) << "a world with a dead process";
      if (at->second.life == Life::kJoining) at->second.life = Life::kTraining;
      EXPECT_EQ(at->second.life, Life::kTraining) << format_slot(each.slot) << " is not there yet";
    }
    has_state_ = true;
    is_broken_ = false;
    ++released_;
  }

  void carry_out(const NotifyWorker& notice) {
    EXPECT_EQ(notice.slot, plan_.front().slot);
    EXPECT_GT(notice.timestamp, last_timestamp_);
    last_timestamp_ = notice.timestamp;
    is_broken_ = true;
  }

  void carry_out(const StopSlots& stop) {
    for (const ElasticSlot& slot : stop.slots) {
      const auto at = workers_.find(slot);
      ASSERT_NE(at, workers_.end()) << "a stop of nobody";
      EXPECT_NE(at->second.life, Life::kStopping) << "stopped twice";
      if (at->second.life == Life::kTraining) is_broken_ = true;
      at->second.life = Life::kStopping;
    }
  }

  void carry_out(const FinishJob& /*finish*/) { is_over_ = true; }

  std::mt19937 random_;
  base::FakeClock clock_;
  std::unique_ptr<ElasticDriver> driver_;
  Workers workers_;
  ElasticPlan plan_;        // of the last BeginGeneration that was carried out
  bool is_broken_ = false;  // workers notice that they need new numbers
  bool has_state_ = false;
  bool is_over_ = false;
  int last_generation_ = -1;
  int released_ = 0;
  std::int64_t last_timestamp_ = 0;
};

}  // namespace muster::launcherd::elastic_soak
