// Tells a Horovod worker on this host that the job's hosts changed. The worker acts on it at its next commit.
//
// Protocol: horovod_notice.h. The worker's notification service listens at all addresses, so the notifier connects to
// 127.0.0.1 only. So a value that a worker published cannot lead it to another host.
//
// Owner: the agent. Destroying it ends all notices under way; their `done` is not called.
// Thread: the loop's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string_view>

#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"

namespace muster::rendezvous {

class HorovodNotifier {
 public:
  using Done = std::function<void(base::Status)>;

  explicit HorovodNotifier(base::Loop& loop, base::Duration time_limit = std::chrono::seconds(10))
      : loop_(loop), time_limit_(time_limit) {}
  ~HorovodNotifier();
  HorovodNotifier(const HorovodNotifier&) = delete;
  HorovodNotifier& operator=(const HorovodNotifier&) = delete;

  // `address` is what the worker published (horovod_worker_address.h). Each notice to a worker needs a larger
  // timestamp. `result` is as in horovod_notice_body(). `done` is called once, from the loop: ok if the worker
  // confirmed the notice, else the reason. The whole notice takes at most the time limit.
  void notify(std::string_view address, std::int64_t timestamp, std::uint8_t result, Done done);

 private:
  class Sending;

  base::Loop& loop_;
  const base::Duration time_limit_;
  std::set<std::shared_ptr<Sending>> sending_;
};

}  // namespace muster::rendezvous
