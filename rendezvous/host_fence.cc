#include "rendezvous/host_fence.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "rendezvous/host_meetings.h"

namespace muster::rendezvous {
namespace {

constexpr std::string_view kScope = "pmi";

std::string key_of(const std::string& name, std::uint64_t number, int host) {
  return fmt::format("{}/{}/{}", name, number, host);
}

}  // namespace

// One meeting. It has ended once `done` was moved out.
struct HostFence::Fence {
  std::string name;
  std::uint64_t number = 0;
  std::vector<int> members;
  bool is_in_tree = false;  // it uses no keys
  Blobs blobs;
  std::size_t missing = 0;  // number of members without a blob; includes this host until its blob is published
  std::map<std::size_t, HorovodKeys::WaitId> waits;  // by the member's position
  Done done;
};

HostFence::HostFence(base::Loop& loop, HorovodKeys& keys, int own_host)
    : loop_(loop), keys_(keys), own_host_(own_host) {}

HostFence::~HostFence() {
  for (const auto& [name, fence] : open_) {
    for (const auto& [index, id] : fence->waits) keys_.cancel_wait(id);
  }
}

base::Status HostFence::check(const std::string& name, const std::vector<int>& members) const {
  const bool is_ascending = std::ranges::adjacent_find(members, std::greater_equal<>()) == members.end();
  if (!is_ascending || std::ranges::find(members, own_host_) == members.end()) {
    return base::invalid_argument(
        "the hosts of the fence '{}' must be in ascending order, without repetition, and include host {}",
        base::printable(name), own_host_);
  }
  if (!open_.contains(name)) return base::ok_status();
  return base::failed_precondition("host {} entered the fence '{}' again before its end", own_host_,
                                   base::printable(name));
}

void HostFence::enter(const std::string& name, std::vector<int> members, std::string blob, Done done) {
  if (base::Status bad = check(name, members); !bad.ok()) {
    return answer([done = std::move(done), bad = std::move(bad)] { done(bad); });
  }
  if (members.size() == 1) {
    return answer([done = std::move(done), blob = std::move(blob)] { done(Blobs{blob}); });
  }
  const auto fence = std::make_shared<Fence>();
  fence->name = name;
  fence->number = ++entered_[name];
  fence->blobs.resize(members.size());
  fence->missing = members.size();
  fence->members = std::move(members);
  fence->done = std::move(done);
  open_.emplace(name, fence);
  if (HostMeetings* const tree = keys_.meetings()) return enter_tree(*tree, fence, std::move(blob));
  // Ask for the others' blobs before this host publishes its own. No blob can disappear in between: hosts remove their
  // blobs only after all hosts have entered, and this host enters by publishing.
  for (std::size_t i = 0; i < fence->members.size() && fence->done; ++i) {
    if (fence->members[i] != own_host_) collect(fence, i);
  }
  if (fence->done) publish(fence, std::move(blob));
}

void HostFence::enter_tree(HostMeetings& tree, const std::shared_ptr<Fence>& fence, std::string blob) {
  fence->is_in_tree = true;
  const base::Status entered =
      tree.enter(fence->name, fence->number, fence->members, std::move(blob),
                 gate_.wrap([this, fence](base::Result<Blobs> blobs) { close(fence, std::move(blobs)); }));
  if (!entered.ok()) fail(fence, entered);
}

void HostFence::publish(const std::shared_ptr<Fence>& fence, std::string blob) {
  const auto own = std::ranges::find(fence->members, own_host_) - fence->members.begin();
  const HorovodValue value = make_horovod_value(std::move(blob));
  keys_.put(kScope, key_of(fence->name, fence->number, own_host_), value,
            [this, open = std::weak_ptr<Fence>(fence), own = static_cast<std::size_t>(own),
             value](const base::Status& status) {
              const auto at = open.lock();
              if (at == nullptr || !at->done) return;
              if (!status.ok()) return fail(at, status);
              arrived(at, own, *value);
            });
}

void HostFence::collect(const std::shared_ptr<Fence>& fence, std::size_t index) {
  // The keys may run this callback within wait(), or later from inside another caller's put. So it must call no
  // function of the keys.
  const HorovodKeys::WaitId id =
      keys_.wait(kScope, key_of(fence->name, fence->number, fence->members[index]),
                 [this, open = std::weak_ptr<Fence>(fence), index](const base::Result<HorovodValue>& found) {
                   const auto at = open.lock();
                   if (at == nullptr || !at->done) return;
                   at->waits.erase(index);
                   if (!found.ok()) return fail(at, found.status());
                   arrived(at, index, **found);
                 });
  if (id != 0) fence->waits.emplace(index, id);
}

void HostFence::arrived(const std::shared_ptr<Fence>& fence, std::size_t index, std::string blob) {
  fence->blobs[index] = std::move(blob);
  if (--fence->missing > 0) return;
  close(fence, std::move(fence->blobs));
}

void HostFence::fail(const std::shared_ptr<Fence>& fence, const base::Status& why) {
  for (const auto& [index, id] : fence->waits) keys_.cancel_wait(id);
  fence->waits.clear();
  close(fence, base::Status(why.code(), fmt::format("the hosts of the job could not meet at '{}': {}",
                                                    base::printable(fence->name), why.message())));
}

void HostFence::close(const std::shared_ptr<Fence>& fence, base::Result<Blobs> result) {
  answer([this, fence, done = std::exchange(fence->done, nullptr), result = std::move(result)] {
    open_.erase(fence->name);
    // All hosts have entered this fence, so all have left the one before. This host's key of that one is no longer
    // needed.
    if (result.ok() && fence->number > 1 && !fence->is_in_tree) {
      keys_.finish(kScope, key_of(fence->name, fence->number - 1, own_host_), [](const base::Status&) {});
    }
    done(result);
  });
}

void HostFence::answer(std::function<void()> task) {
  loop_.post(gate_.wrap(std::move(task)));
}

}  // namespace muster::rendezvous
