// The jobs of a warm agent: opened by launcherd one by one, side by side, each with a session of its own and a history
// that a launcherd which has started anew is told.
//
// Owned by the agent; loop thread only. An order for a job that cannot be carried out is answered, and touches no other
// job.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/job/job_session.h"
#include "agent/process/nursery.h"
#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class WarmJobs {
 public:
  struct Events {
    std::function<void(v1::AgentMessage)> send;             // numbered
    std::function<void(v1::AgentMessage)> send_unnumbered;  // dropped while no launcher listens
    // For one job; an error becomes the answer to its Launch.
    std::function<base::Result<OutputSenderConfig>(const std::string& job_id, const v1::OpenJob& order)> output;
    std::function<void()> on_idle;  // the last job is gone
  };

  // `host` outlives it.
  WarmJobs(const SessionHost& host, Nursery nursery, Events events);
  ~WarmJobs();
  WarmJobs(const WarmJobs&) = delete;
  WarmJobs& operator=(const WarmJobs&) = delete;

  // A message with a job_id.
  void handle(const v1::LauncherMessage& message);

  void contact(base::MonotonicTime when);
  void check_leases(base::MonotonicTime now);
  void stream_is_up();
  // The process that was there is not any more: jobs that are not held end.
  void launcher_is_gone();
  // The same, and another one listens now: it is told the history of every job.
  void launcher_is_new();
  // All jobs end, also those that are held.
  void end_all(const std::string& why);

  bool is_idle() const { return jobs_.empty(); }
  bool has_unheld() const;
  // No job can be opened any more: the nursery has ended.
  bool is_broken() const { return is_broken_; }
  void list_held(v1::Hello& hello) const;

 private:
  struct Job;

  void open(const v1::LauncherMessage& message);
  void begin(const std::string& id, const v1::OpenJob& order);
  void born(Job& job);
  void refuse(const std::string& id, const v1::OpenJob& order, const base::Status& why);
  void pass_on(Job& job, const v1::LauncherMessage& message);
  void send(const std::string& id, v1::AgentMessage message);
  void close(const std::string& id);
  void closed(const std::string& id);
  void forget(const std::string& id);
  std::vector<pid_t> children_but_of(const std::string& id) const;

  const SessionHost& host_;
  Nursery nursery_;
  const Events events_;
  base::Timer nursery_watch_;
  bool is_broken_ = false;
  base::MonotonicTime last_contact_{};
  std::map<std::string, std::unique_ptr<Job>> jobs_;
};

}  // namespace muster::agent::job
