// Submissions that depend on how many slots hosts have that are being asked for their GPUs: who submits waits for these
// for a while, instead of being told a number that holds for a moment.
//
// Loop thread only. What is held at its end is not answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>

#include "base/loop.h"
#include "launcherd/daemon/host_table.h"
#include "launcherd/service/api_handler.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline daemon {

class HeldSubmissions {
 public:
  using Admit = std::function<void(const v1::SubmitRequest&, Reply<v1::SubmitResponse>)>;

  // `hosts` is borrowed. `patience`: less than clients have; then what is known decides.
  HeldSubmissions(base::Loop& loop, const HostTable* hosts, Admit admit,
                  std::chrono::milliseconds patience = std::chrono::seconds(10))
      : loop_(loop), hosts_(hosts), admit_(std::move(admit)), patience_(patience) {}

  // Admits it now or later.
  void take(const v1::SubmitRequest& request, Reply<v1::SubmitResponse> reply);
  // The hosts have changed.
  void look_again();
  void refuse_all(const base::Status& why);
  std::size_t size() const { return held_.size(); }

 private:
  struct Held {
    v1::SubmitRequest request;
    Reply<v1::SubmitResponse> reply;
    base::Timer limit;
  };
  bool must_wait(const v1::SubmitRequest& request) const;
  void admit(std::uint64_t number);

  base::Loop& loop_;
  const HostTable* const hosts_;
  const Admit admit_;
  const std::chrono::milliseconds patience_;
  std::map<std::uint64_t, Held> held_;  // in the order in which they came
  std::uint64_t next_number_ = 0;
};

}  // namespace muster::launcherd::daemon
