// The whole of WarmJobs. A job passes through open(), begin(), warden_created(), close() and closed(), in this order.
// Read struct Job first, then these functions, then launcher_is_new() and launcher_is_gone().

#include "agent/job/warm_jobs.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/job/agent_messages.h"
#include "base/ids.h"
#include "base/strings.h"

namespace muster::agent::inline job {
namespace {

// Descriptors that a job with some ranks may need. If fewer are free, no job is opened. Otherwise the agent itself
// could run out of descriptors.
constexpr rlim_t kSpareOfJobs = 256;
// Limit for one job that waits for its warden. A launcher that follows the protocol sends fewer messages.
constexpr std::size_t kMaxHeldMessages = 1024;
constexpr std::size_t kMaxNotices = 1000;
constexpr long kSpoolMib = 1024;
constexpr long kMaxSpoolMib = 1024 * 1024;
constexpr const char* kLauncherEnded = "the launcher has ended";

// Refuses a job if few descriptors are free. A duplicated descriptor gets, and so shows, the lowest free number.
base::Status check_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= 2 * kSpareOfJobs) return base::ok_status();
  const base::UniqueFd next(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
  if (next.valid() && static_cast<rlim_t>(next.get()) < limit.rlim_cur - kSpareOfJobs) return base::ok_status();
  return base::resource_exhausted(
      "this agent has too few file descriptors for another job; wait until a job ends, or raise ulimit -n");
}

// The attempt is part of the id, because the previous attempt's agent may still be cleaning up its own session
// directory.
std::string agent_id_of(const v1::OpenJob& order) {
  const std::string index = std::to_string(order.agent_index());
  return order.attempt() == 0 ? index : fmt::format("{}.{}", index, order.attempt());
}

base::Result<WardenOptions> warden_options(const std::string& id, const v1::OpenJob& order) {
  MUSTER_ASSIGN_OR_RETURN(const base::JobId job, base::JobId::parse(id));
  MUSTER_ASSIGN_OR_RETURN(const ContainLevel contain, parse_contain_level(order.contain()));
  if (order.lease_ms() <= 0) {
    return base::invalid_argument("a lease of {} ms is not allowed; it must be positive", order.lease_ms());
  }
  return WardenOptions{
      .job_id = job.str(), .agent_id = agent_id_of(order), .session_root = order.session_root(), .contain = contain};
}

// Returns the spool limit of a held job. It bounds the output that waits while no launcherd reads it.
std::size_t spool_bytes(const base::Environment& environment) {
  const auto text = environment.get("MUSTER_SPOOL_MIB");
  const auto mib = text ? base::parse_decimal(*text, kMaxSpoolMib) : std::nullopt;
  return static_cast<std::size_t>(mib.value_or(kSpoolMib)) << 20;
}

v1::JobOpened opened_as(const v1::OpenJob& order) {
  v1::JobOpened opened;
  opened.set_attempt(order.attempt());
  opened.set_agent_index(order.agent_index());
  return opened;
}

}  // namespace

struct WarmJobs::Job {
  Job(std::string the_id, v1::OpenJob the_order) : id(std::move(the_id)), order(std::move(the_order)) {}

  const std::string id;
  const v1::OpenJob order;
  std::optional<PendingWarden> birth;  // set until the warden has started
  base::Timer birth_watch;
  // Messages that wait for the warden or, once this job is closing, for its end.
  std::deque<v1::LauncherMessage> waiting;
  std::unique_ptr<JobSession> session;
  std::vector<v1::AgentMessage> history;
  std::size_t notices = 0;
  bool is_closing = false;
  bool owes_history_end = false;  // a new launcher connected while the job was being opened
  bool is_lost = false;           // its launcher ended while the job was being opened
};

WarmJobs::WarmJobs(const SessionHost& host, Nursery nursery, Events events)
    : host_(host), nursery_(std::move(nursery)), events_(std::move(events)) {
  nursery_watch_ = host_.loop.on_readable(nursery_.fd(), [this] {
    nursery_watch_.cancel();
    is_broken_ = true;
    if (is_idle()) events_.on_idle();
  });
}

WarmJobs::~WarmJobs() = default;

void WarmJobs::send(const std::string& id, v1::AgentMessage message) {
  message.set_job_id(id);
  const auto found = jobs_.find(id);
  if (found != jobs_.end() && is_history(message)) {
    Job& job = *found->second;
    const bool is_too_much = message.has_notice() && ++job.notices > kMaxNotices;
    if (!is_too_much) add_to_history(message, job.history);
  }
  events_.send(std::move(message));
}

void WarmJobs::handle(const v1::LauncherMessage& message) {
  if (message.has_open_job()) return open(message);
  const auto found = jobs_.find(message.job_id());
  if (found == jobs_.end()) {
    if (!message.has_leave()) return;  // the message is late: the job has ended
    v1::AgentMessage answer;
    answer.mutable_job_closed();
    return send(message.job_id(), std::move(answer));
  }
  pass_on(*found->second, message);
}

void WarmJobs::pass_on(Job& job, const v1::LauncherMessage& message) {
  const bool is_of_next = job.is_closing && !job.waiting.empty();
  if (job.session != nullptr && !job.is_closing) return job.session->handle(message);
  if ((job.session == nullptr || is_of_next) && job.waiting.size() < kMaxHeldMessages) job.waiting.push_back(message);
}

void WarmJobs::open(const v1::LauncherMessage& message) {
  const auto found = jobs_.find(message.job_id());
  if (found == jobs_.end()) return begin(message.job_id(), message.open_job());
  Job& job = *found->second;
  if (job.is_closing && job.waiting.empty()) {  // the order waits until the previous attempt is gone
    job.waiting.push_back(message);
    return;
  }
  refuse(job.id, message.open_job(),
         base::already_exists("job {} is already open here, as attempt {}", job.id, job.order.attempt()));
}

void WarmJobs::refuse(const std::string& id, const v1::OpenJob& order, const base::Status& why) {
  v1::AgentMessage answer;
  *answer.mutable_job_opened() = opened_as(order);
  answer.mutable_job_opened()->set_error(why.message());
  answer.set_job_id(id);
  events_.send(std::move(answer));  // no job exists whose history could keep it
}

void WarmJobs::begin(const std::string& id, const v1::OpenJob& order) {
  if (opens_no_more_) return refuse(id, order, base::unavailable("this agent is ending"));
  auto options = warden_options(id, order);
  base::Status status = options.ok() ? check_descriptors() : options.status();
  if (!status.ok()) return refuse(id, order, status);
  auto birth = nursery_.ask(*options);
  if (!birth.ok()) return refuse(id, order, birth.status());
  auto owned = std::make_unique<Job>(id, order);
  Job& job = *owned;
  jobs_[id] = std::move(owned);
  job.birth.emplace(std::move(*birth));
  job.birth_watch = host_.loop.on_readable(job.birth->fd(), [this, &job] { warden_created(job); });
}

void WarmJobs::warden_created(Job& job) {
  auto warden = job.birth->take();
  if (warden.ok() && !*warden) return;  // the warden has not started yet
  job.birth_watch.cancel();
  job.birth.reset();
  if (!warden.ok()) {
    const std::string id = job.id;
    const bool was_left = std::ranges::any_of(job.waiting, [](const auto& message) { return message.has_leave(); });
    refuse(id, job.order, warden.status());
    forget(id);
    if (!was_left) return;
    v1::AgentMessage answer;
    answer.mutable_job_closed();
    return send(id, std::move(answer));
  }
  SessionOptions options;
  options.lease = std::chrono::milliseconds(job.order.lease_ms());
  options.reports_no_output = true;
  // A suspend does not stop launcherd, so the job's lease runs on. It does stop hvdrun.
  options.suspend_stops_lease = events_.launcher_suspends_itself;
  options.outlives_launcher = job.order.hold();
  if (job.order.hold()) options.spool_bytes = spool_bytes(host_.login_environment);
  options.output = [this, &job] { return events_.output(job.id, job.order); };
  SessionEvents events;
  events.send = [this, id = job.id](v1::AgentMessage message) { send(id, std::move(message)); };
  events.send_unnumbered = [this, id = job.id](v1::AgentMessage message) {
    message.set_job_id(id);
    events_.send_unnumbered(std::move(message));
  };
  events.on_done = [this, &job] {
    job.is_closing = true;
    host_.loop.post([this, id = job.id] { close(id); });
  };
  events.others = [this, id = job.id] { return children_but_of(id); };
  job.session = std::make_unique<JobSession>(host_, std::move(**warden), std::move(options), std::move(events));
  job.session->contact(last_contact_);

  v1::AgentMessage answer;
  v1::JobOpened& opened = *answer.mutable_job_opened();
  opened = opened_as(job.order);
  opened.set_containment(job.session->containment().name());
  opened.set_containment_note(job.session->containment().note);
  opened.set_session_dir(job.session->session_dir());
  send(job.id, std::move(answer));
  if (job.owes_history_end) {
    v1::AgentMessage end;
    end.mutable_history_end();
    send(job.id, std::move(end));
  }
  if (job.is_lost) return job.session->launcher_lost(kLauncherEnded);
  const auto waiting = std::exchange(job.waiting, {});
  for (const v1::LauncherMessage& message : waiting) {
    if (!job.is_closing) job.session->handle(message);
  }
}

void WarmJobs::stream_is_up() {
  for (const auto& [id, job] : jobs_) {
    if (job->session != nullptr && !job->is_closing) job->session->stream_is_up();
  }
}

void WarmJobs::stream_is_cut() {
  for (const auto& [id, job] : jobs_) {
    if (job->session != nullptr && !job->is_closing) job->session->stream_is_cut();
  }
}

void WarmJobs::close(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  found->second->session->close([this, id] { host_.loop.post([this, id] { closed(id); }); });
}

void WarmJobs::closed(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  const auto next = std::move(found->second->waiting);
  v1::AgentMessage answer;
  answer.mutable_job_closed();
  send(id, std::move(answer));
  if (next.empty()) return forget(id);
  jobs_.erase(id);
  for (const v1::LauncherMessage& message : next) handle(message);
  if (is_idle()) events_.on_idle();  // handle() may have refused the next job
}

void WarmJobs::forget(const std::string& id) {
  jobs_.erase(id);
  if (is_idle()) events_.on_idle();
}

std::vector<pid_t> WarmJobs::children_but_of(const std::string& id) const {
  std::vector<pid_t> children{nursery_.pid()};
  for (const auto& [other, job] : jobs_) {
    if (other == id || job->session == nullptr) continue;
    const std::vector<pid_t> own = job->session->own_children();
    children.insert(children.end(), own.begin(), own.end());
  }
  return children;
}

void WarmJobs::contact(base::MonotonicTime when) {
  last_contact_ = when;
  for (const auto& [id, job] : jobs_) {
    if (job->session != nullptr) job->session->contact(when);
  }
}

void WarmJobs::check_leases(base::MonotonicTime now) {
  for (const auto& [id, job] : jobs_) {
    if (job->session != nullptr && !job->is_closing) job->session->check(now);
  }
}

void WarmJobs::launcher_is_gone() {
  for (const auto& [id, job] : jobs_) {
    if (job->is_closing || job->order.hold()) continue;
    if (job->session == nullptr) {
      job->is_lost = true;
    } else {
      job->session->launcher_lost(kLauncherEnded);
    }
  }
}

void WarmJobs::launcher_is_new() {
  for (const auto& [id, job] : jobs_) {
    if (job->is_closing) continue;
    if (job->session == nullptr) {
      job->owes_history_end = true;
      continue;
    }
    job->session->launcher_is_new();
    for (const v1::AgentMessage& message : job->history) events_.send(message);
    v1::AgentMessage end;
    end.mutable_history_end();
    send(id, std::move(end));
  }
  launcher_is_gone();
}

void WarmJobs::end_all(const std::string& why) {
  opens_no_more_ = true;
  for (const auto& [id, job] : jobs_) {
    if (job->session != nullptr && !job->is_closing) job->session->launcher_lost(why);
  }
  std::erase_if(jobs_, [](const auto& entry) { return entry.second->session == nullptr; });
  if (is_idle()) events_.on_idle();
}

bool WarmJobs::is_any_suspended() const {
  return std::ranges::any_of(jobs_, [](const auto& entry) {
    const JobSession* const session = entry.second->session.get();
    return session != nullptr && session->is_suspended() && !session->must_end();
  });
}

bool WarmJobs::is_any_ending() const {
  return std::ranges::any_of(
      jobs_, [](const auto& entry) { return entry.second->session != nullptr && entry.second->session->must_end(); });
}

bool WarmJobs::has_unheld() const {
  return std::ranges::any_of(jobs_, [](const auto& entry) { return !entry.second->order.hold(); });
}

void WarmJobs::list_held(v1::Hello& hello) const {
  for (const auto& [id, job] : jobs_) {
    if (job->is_closing) continue;
    v1::HeldJob& held = *hello.add_held_jobs();
    held.set_job_id(id);
    held.set_attempt(job->order.attempt());
    held.set_agent_index(job->order.agent_index());
    held.set_launched(job->session != nullptr && job->session->is_launched());
  }
}

}  // namespace muster::agent::job
