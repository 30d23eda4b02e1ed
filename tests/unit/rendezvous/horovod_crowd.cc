#include "tests/unit/rendezvous/horovod_crowd.h"

#include <chrono>
#include <utility>

namespace muster::rendezvous {
namespace {

constexpr auto kPollPause = std::chrono::milliseconds(10);

}  // namespace

void HorovodBarriers::arrive(const std::string& scope, std::size_t size, std::function<void()> resume) {
  std::vector<std::function<void()>> all;
  {
    const std::lock_guard lock(mutex_);
    auto& there = there_[scope];
    there.push_back(std::move(resume));
    if (there.size() < size) return;
    all = std::exchange(there, {});
  }
  for (const auto& each : all) each();
}

void HorovodCrowd::add(const HorovodSeat& seat, int round, const std::string& suffix) {
  members_.push_back({HorovodWorker(seat, round, suffix), {}});
}

std::string HorovodCrowd::problem() const {
  for (const Member& member : members_) {
    if (!member.worker.problem().empty()) return member.worker.problem();
  }
  return "";
}

void HorovodCrowd::go(Member& member) {
  switch (member.worker.wants()) {
    case HorovodWorker::Wants::kRequest:
      return ask(member);
    case HorovodWorker::Wants::kPause:
      member.pause = loop_.after(kPollPause, [this, &member] { resume(member); });
      return;
    case HorovodWorker::Wants::kBarrier:
      barriers_.arrive(member.worker.scope(), member.worker.scope_size(),
                       [this, &member] { loop_.post([this, &member] { resume(member); }); });
      return;
    case HorovodWorker::Wants::kNothing:
      ++ended_;
  }
}

void HorovodCrowd::ask(Member& member) {
  ++requests_;
  ask_(member.worker.seat(), member.worker.request(), [this, &member](int status, std::string_view body) {
    misses_ += status == 404 ? 1 : 0;
    member.worker.answered(status, body);
    go(member);
  });
}

void HorovodCrowd::resume(Member& member) {
  member.worker.resumed();
  go(member);
}

}  // namespace muster::rendezvous
