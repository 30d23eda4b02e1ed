// The jobs of a warm agent. launcherd opens them one by one, and they run side by side. Each job has its own session,
// and a history that a restarted launcherd receives.
//
// Owner: the agent.
// Thread: the loop thread only.
// Errors: an order that cannot be carried out gets an answer with the error. It affects no other job.
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
    std::function<void(v1::AgentMessage)> send;             // in order, exactly once
    std::function<void(v1::AgentMessage)> send_unnumbered;  // dropped while no launcher listens
    // Makes the output route of one job. An error becomes the answer to the job's Launch.
    std::function<base::Result<OutputSenderConfig>(const std::string& job_id, const v1::OpenJob& order)> output;
    std::function<void()> on_idle;          // the last job is gone
    bool launcher_suspends_itself = false;  // the launcher is hvdrun, which a Ctrl-Z stops with the ranks
  };

  // `host` outlives this object.
  WarmJobs(const SessionHost& host, Nursery nursery, Events events);
  ~WarmJobs();
  WarmJobs(const WarmJobs&) = delete;
  WarmJobs& operator=(const WarmJobs&) = delete;

  // Handles a message that has a job_id.
  void handle(const v1::LauncherMessage& message);

  void contact(base::MonotonicTime when);
  void check_leases(base::MonotonicTime now);
  void stream_is_up();
  void stream_is_cut();
  // Call this when the launcher process has ended. Ends the jobs that are not held.
  void launcher_is_gone();
  // Call this when the launcher process has ended and a new one listens. Sends the new one the history of every job,
  // and ends the jobs that are not held.
  void launcher_is_new();
  // Ends all jobs, also held ones, and opens no more.
  void end_all(const std::string& why);

  bool is_idle() const { return jobs_.empty(); }
  // True if a job is suspended that must not end.
  bool is_any_suspended() const;
  // True if the launcher has left a job that is still here, or is lost.
  bool is_any_ending() const;
  bool has_unheld() const;
  // True if the nursery has ended, so that no job can be opened any longer.
  bool is_broken() const { return is_broken_; }
  void list_held(v1::Hello& hello) const;

 private:
  struct Job;

  void open(const v1::LauncherMessage& message);
  void begin(const std::string& id, const v1::OpenJob& order);
  void warden_created(Job& job);
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
  bool opens_no_more_ = false;
  base::MonotonicTime last_contact_{};
  std::map<std::string, std::unique_ptr<Job>> jobs_;
};

}  // namespace muster::agent::job
