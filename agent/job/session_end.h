// HostEmpty, the session's report that nothing of the job is left on this host. It waits for the ranks' output and for
// GPU memory that drivers have not released.
//
// Owner: the job's session.
// Thread: the loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/gpus/job_gpus.h"
#include "agent/job/session_output.h"
#include "agent/process/warden_events.h"
#include "base/gate.h"
#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class SessionEnd {
 public:
  struct Events {
    std::function<void(const std::string&)> on_notice;  // a sentence for the user
    std::function<void()> on_change;                    // has_all() may be true now
  };

  // All arguments outlive this object.
  SessionEnd(base::Loop& loop, JobGpus& gpus, const SessionOutput& output, Events events)
      : loop_(loop), gpus_(gpus), output_(output), events_(std::move(events)) {}

  // Keeps the message until it may be sent, and begins to wait for the memory of GPUs. A later message replaces it.
  void job_is_empty(v1::HostEmpty message, const std::vector<Leftover>& leftovers);
  // Ends the wait for GPUs. If the wait has not begun, it will not begin.
  void give_up_gpus();

  // True if HostEmpty may be sent now.
  bool has_all() const { return message_ && output_.has_all() && !gpus_.is_waiting(); }
  const v1::HostEmpty& message() const { return *message_; }

 private:
  void end_gpu_wait();

  base::Loop& loop_;
  JobGpus& gpus_;
  const SessionOutput& output_;
  const Events events_;
  bool awaits_no_gpus_ = false;
  std::optional<v1::HostEmpty> message_;
  base::Gate gate_;
};

}  // namespace muster::agent::job
