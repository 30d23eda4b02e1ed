// Holds submissions while launcherd waits for hosts to report their GPUs, because the decision depends on the number of
// slots. The client waits up to `patience` for its reply.
//
// Owner: JobManager.
// Thread: loop thread only. Submissions that are still held at destruction get no reply.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/loop.h"
#include "launcherd/daemon/host_table.h"
#include "launcherd/service/api_handler.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline daemon {

class HeldSubmissions {
 public:
  using Admit = std::function<void(const v1::SubmitRequest&, const std::string& user, Reply<v1::SubmitResponse>)>;

  // `hosts` is borrowed. `patience` must be shorter than the timeout of clients. After `patience` launcherd decides
  // with the slots that it knows by then.
  HeldSubmissions(base::Loop& loop, const HostTable* hosts, Admit admit,
                  std::chrono::milliseconds patience = std::chrono::seconds(10))
      : loop_(loop), hosts_(hosts), admit_(std::move(admit)), patience_(patience) {}

  // Admits the submission, now or later.
  void add(const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply);
  // Call it when the hosts have changed.
  void recheck();
  void refuse_all(const base::Status& why);
  std::size_t size() const { return held_.size(); }

 private:
  struct Held {
    v1::SubmitRequest request;
    std::string user;
    Reply<v1::SubmitResponse> reply;
    base::Timer limit;
  };
  bool must_wait(const v1::SubmitRequest& request) const;
  void admit(std::uint64_t number);

  base::Loop& loop_;
  const HostTable* const hosts_;
  const Admit admit_;
  const std::chrono::milliseconds patience_;
  std::map<std::uint64_t, Held> held_;  // by order of arrival
  std::uint64_t next_number_ = 0;
};

}  // namespace muster::launcherd::daemon
