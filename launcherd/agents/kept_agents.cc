// All of KeptAgents. Read it in this order: start, start_first, start_next, apply, act; then the functions that act()
// calls. The rest passes calls and events on, between the generation's indexes and the agents' numbers.
#include "launcherd/agents/kept_agents.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/strings.h"

namespace muster::launcherd::inline agents {
namespace {

// New agents that replace others start together, because some launchers (srun) start many at once much faster than one
// by one. Agents that fail for one reason do so at about the same time.
constexpr std::chrono::milliseconds kGatherReplacements{50};

std::string key_of(const AgentHost& host) {
  return fmt::format("{} {} {}", host.target.name, host.target.user, host.target.port);
}

}  // namespace

KeptAgents::KeptAgents(base::Loop& loop, OwnAgentsOptions options, BootstrapOf bootstrap_of)
    : loop_(loop), options_(std::move(options)), bootstrap_of_(std::move(bootstrap_of)) {}

std::shared_ptr<JobAgents> KeptAgents::of_attempt(int attempt) {
  MUSTER_CHECK(listener_ == nullptr);  // the generation before has ended
  attempt_ = attempt;
  JobAgents* const generation = this;
  return {generation, [self = shared_from_this()](JobAgents*) { self->end_generation(); }};
}

base::Status KeptAgents::start(std::vector<AgentHost> hosts, OutputSink* sink, AgentListener* listener) {
  listener_ = listener;
  numbers_.clear();
  if (!may_keep()) return start_first(std::move(hosts), sink);
  start_next(std::move(hosts), sink);
  return base::ok_status();
}

bool KeptAgents::may_keep() const {
  return own_ != nullptr && bootstrap_ != nullptr;
}

// Starts an agent on every host.
base::Status KeptAgents::start_first(std::vector<AgentHost> hosts, OutputSink* sink) {
  own_.reset();
  agents_.clear();
  bootstrap_ = bootstrap_of_(attempt_);
  OwnAgentsOptions options = options_;
  options.attempt = attempt_;
  options.is_kept = true;
  own_ = std::make_shared<OwnAgents>(loop_, std::move(options), bootstrap_);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    agents_.push_back({.host = hosts[i], .index = static_cast<int>(i)});
    numbers_.push_back(static_cast<int>(i));
  }
  const base::Status started = own_->start(std::move(hosts), sink, this);
  if (!started.ok()) bootstrap_ = nullptr;
  ping_timer_ = loop_.every(std::max(kPingPeriod, options_.lease / 10), [this] { ping_agents(); });
  return started;
}

// Uses the agents that are there, and starts the others.
void KeptAgents::start_next(std::vector<AgentHost> hosts, OutputSink* sink) {
  own_->begin_generation(attempt_, bootstrap_, sink);
  std::map<std::string, int> there = reusable();
  std::vector<int> added;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const int index = static_cast<int>(i);
    const auto found = there.find(key_of(hosts[i]));
    if (found == there.end()) {
      numbers_.push_back(add_agent(std::move(hosts[i]), index));
      added.push_back(numbers_.back());
      continue;
    }
    const int number = found->second;
    there.erase(found);
    numbers_.push_back(number);
    at(number).index = index;
    at(number).has_reported_start = false;
    apply(number, Event::kTake);
  }
  for (int number = 0; number < static_cast<int>(agents_.size()); ++number) {
    if (!is_used(at(number).phase)) apply(number, Event::kDrop);
  }
  if (!added.empty()) own_->start_added(added);
  // Post, because the caller is not ready for events yet.
  begin_timer_ = loop_.after(base::Duration::zero(), [this] { begin_taken(); });
}

// Returns the agents that may serve another generation.
std::map<std::string, int> KeptAgents::reusable() const {
  std::map<std::string, int> found;
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    const Agent& agent = agents_[i];
    if (!is_free(agent.phase) || !agent.has_stream || agent.up.link == "ssh") continue;
    found.emplace(key_of(agent.host), static_cast<int>(i));
  }
  return found;
}

int KeptAgents::add_agent(AgentHost host, int index) {
  agents_.push_back({.host = host, .index = index});
  static_cast<void>(own_->add(std::move(host)));  // it never fails
  return static_cast<int>(agents_.size()) - 1;
}

void KeptAgents::begin_taken() {
  int taken = 0;
  for (const int number : std::vector(numbers_)) {
    if (!is_taken(at(number).phase)) continue;
    ++taken;
    report_started(number);
    apply(number, Event::kBegin);
  }
  note(fmt::format("{} of {} agents are those of the generation before", taken, numbers_.size()));
}

void KeptAgents::apply(int number, Event event, const base::Status& why) {
  Agent& agent = at(number);
  const auto step = next_step(agent.phase, event);
  if (!step) return;
  const int index = agent.index;
  agent.phase = step->to;
  agent.limit.cancel();
  if (!is_used(step->to)) agent.index = kNobody;
  act(number, index, step->action, why);
}

void KeptAgents::act(int number, int index, KeptAgentAction action, const base::Status& why) {
  switch (action) {
    case KeptAgentAction::kNone:
      return;
    case KeptAgentAction::kSendOpen:
      return send_open(number);
    case KeptAgentAction::kAwaitClose:
      return limit(number, kCloseTime, "closed the last generation");
    case KeptAgentAction::kSendLeave:
      return send_leave(number);
    case KeptAgentAction::kReportUp:
      return report_up(number);
    case KeptAgentAction::kReportFailed:
      let_go(number);
      return listener_->agent_failed(index, why.message());
    case KeptAgentAction::kReportRefused:
      let_go(number);
      return listener_->agent_failed(index, fmt::format("{}: {}", at(number).host.target.name, why.message()));
    case KeptAgentAction::kReportGone:
      return listener_->agent_gone(index, why);  // it drops the agent, or needs what the agent has sent
    case KeptAgentAction::kReportUnreadable:
      return listener_->agent_unreadable(index);
    case KeptAgentAction::kReplace:
      return replace(number, index, why);
    case KeptAgentAction::kLetGo:
      return let_go(number);
  }
}

void KeptAgents::send_open(int number) {
  v1::LauncherMessage message;
  message.set_job_id(options_.job_id);
  *message.mutable_open_job() = own_->job_order(number);
  own_->send(number, std::move(message));
  if (is_taken(at(number).phase)) limit(number, kOpenTime, "opened the next generation");
}

void KeptAgents::send_leave(int number) {
  v1::LauncherMessage message;
  message.set_job_id(options_.job_id);
  message.mutable_leave();
  own_->send(number, std::move(message));
}

// Replaces the agent unless it leaves its phase in time.
void KeptAgents::limit(int number, std::chrono::milliseconds time, const std::string& what) {
  time = std::min(time + kTimePerAgent * static_cast<int>(numbers_.size()), options_.start_timeout / 4);
  at(number).limit = loop_.after(time, [this, number, time, what] {
    const double seconds = std::chrono::duration<double>(time).count();
    apply(number, Event::kLate, base::deadline_exceeded("it has not {} in {:.3g} s", what, seconds));
  });
}

void KeptAgents::opened(int number, const v1::JobOpened& opened) {
  if (!opened.error().empty()) {
    return apply(number, Event::kRefused, base::unavailable("{}", base::printable(opened.error())));
  }
  v1::Hello& hello = at(number).up.hello;
  hello.clear_held_jobs();
  hello.set_containment(opened.containment());
  hello.set_containment_note(opened.containment_note());
  hello.set_session_dir(opened.session_dir());
  apply(number, Event::kOpened);
}

void KeptAgents::report_started(int number) {
  Agent& agent = at(number);
  if (agent.index == kNobody || std::exchange(agent.has_reported_start, true)) return;
  listener_->agent_started(agent.index);
}

void KeptAgents::report_up(int number) {
  report_started(number);
  const Agent& agent = at(number);
  if (agent.phase == Phase::kOpen) listener_->agent_stream(agent.index, agent.has_stream);
  if (agent.phase == Phase::kOpen) listener_->agent_up(agent.index, agent.up);
}

// Starts a new agent in place of one that an earlier generation has used.
void KeptAgents::replace(int number, int index, const base::Status& why) {
  AgentHost host = at(number).host;
  const bool has_reported_start = at(number).has_reported_start;
  let_go(number);
  note(fmt::format("{}: a new agent is started, because the agent of the last generation failed: {}", host.target.name,
                   why.message()));
  const int added = add_agent(std::move(host), index);
  at(added).has_reported_start = has_reported_start;
  numbers_[static_cast<std::size_t>(index)] = added;
  if (replacements_.empty()) replace_timer_ = loop_.after(kGatherReplacements, [this] { start_replacements(); });
  replacements_.push_back(added);
}

void KeptAgents::start_replacements() {
  std::vector<int> numbers = std::exchange(replacements_, {});
  std::erase_if(numbers, [this](int number) { return at(number).phase != Phase::kStarting; });
  if (!numbers.empty()) own_->start_added(numbers);
}

void KeptAgents::let_go(int number) {
  at(number).up = {};
  own_->drop(number);
}

void KeptAgents::end_generation() {
  listener_ = nullptr;
  begin_timer_.cancel();
  replace_timer_.cancel();
  replacements_.clear();
  if (own_ == nullptr) return;
  for (const int number : numbers_) apply(number, Event::kLeave);
  own_->end_generation();
}

// The generation pings the agents on which it runs. The lease of all others would end while a generation takes long to
// begin, for example because of one slow host.
void KeptAgents::ping_agents() {
  ping_turns_.next(agents_.size(), 0);
  v1::LauncherMessage message;
  message.mutable_ping()->set_launcher_ns(base::monotonic_now().time_since_epoch().count());
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    const Phase phase = agents_[i].phase;
    const bool is_without_pings = is_free(phase) || is_taken(phase) || phase == Phase::kOpening;
    if (!is_without_pings || !ping_turns_.is_due(i)) continue;
    own_->send_unnumbered(static_cast<int>(i), message);
  }
}

bool KeptAgents::is_any_starting() const {
  return std::ranges::any_of(agents_, [](const Agent& agent) { return agent.phase == Phase::kStarting; });
}

void KeptAgents::cancel_start() {
  // The generation ends, so it needs no new agents for these hosts.
  for (const int number : numbers_) {
    if (is_taken(at(number).phase)) apply(number, Event::kLeave);
  }
  if (!is_any_starting()) return;
  own_->cancel_start();
  bootstrap_ = nullptr;
}

void KeptAgents::send(int agent, v1::LauncherMessage message) {
  const int number = number_of(agent);
  if (at(number).phase != Phase::kOpen) return;
  message.set_job_id(options_.job_id);
  own_->send(number, std::move(message));
}

void KeptAgents::send_unnumbered(int agent, v1::LauncherMessage message) {
  const int number = number_of(agent);
  if (at(number).phase != Phase::kOpen) return;
  message.set_job_id(options_.job_id);
  own_->send_unnumbered(number, std::move(message));
}

void KeptAgents::expect_output(int agent, const std::vector<int>& ranks) {
  own_->expect_output(number_of(agent), ranks);
}

void KeptAgents::expect_more_output(int agent, const std::vector<int>& ranks) {
  own_->expect_more_output(number_of(agent), ranks);
}

void KeptAgents::output_ends(int agent) {
  own_->output_ends(number_of(agent));
}

void KeptAgents::leave(int agent) {
  apply(number_of(agent), Event::kLeave);
}

void KeptAgents::drop(int agent) {
  apply(number_of(agent), Event::kDrop);
}

void KeptAgents::sweep(int agent, std::function<void(base::Result<CommandResult>)> done) {
  // The answer may come after the generation whose listener waits for it.
  own_->sweep(number_of(agent), [this, attempt = attempt_, done = std::move(done)](base::Result<CommandResult> result) {
    if (listener_ != nullptr && attempt == attempt_) done(std::move(result));
  });
}

void KeptAgents::agent_started(int number) {
  report_started(number);
}

void KeptAgents::agent_up(int number, AgentUp up) {
  if (at(number).phase == Phase::kStarting) at(number).up = std::move(up);
  apply(number, Event::kHello);
}

void KeptAgents::agent_failed(int number, const std::string& message) {
  apply(number, Event::kFailStart, base::unavailable("{}", message));
}

void KeptAgents::agent_message(int number, const v1::AgentMessage& message) {
  const Agent& agent = at(number);
  const bool has_generation = agent.phase == Phase::kOpen || agent.phase == Phase::kEnded;
  if (message.job_id().empty() && message.has_host_load()) {
    if (has_generation) listener_->agent_message(agent.index, message);
    return;
  }
  if (message.job_id().empty()) {
    if (message.has_notice())
      note(fmt::format("{}: {}", agent.host.target.name, base::printable(message.notice().text())));
    return;
  }
  if (message.has_job_opened()) return opened(number, message.job_opened());
  if (message.has_job_closed()) {
    return apply(number, Event::kClosed, base::unavailable("the agent ended the job by itself"));
  }
  if (has_generation) listener_->agent_message(agent.index, message);
}

void KeptAgents::agent_stream(int number, bool is_there) {
  Agent& agent = at(number);
  agent.has_stream = is_there;
  if (agent.phase == Phase::kOpen || agent.phase == Phase::kEnded) listener_->agent_stream(agent.index, is_there);
}

void KeptAgents::agent_gone(int number, const base::Status& status) {
  apply(number, Event::kEnd, status);
}

void KeptAgents::agent_unreadable(int number) {
  apply(number, Event::kUnreadable, base::unavailable("it has sent a message that cannot be read"));
}

void KeptAgents::output_complete(int number) {
  if (at(number).index != kNobody) listener_->output_complete(at(number).index);
}

void KeptAgents::output_cut(int number) {
  if (at(number).index != kNobody) listener_->output_cut(at(number).index);
}

void KeptAgents::output_failed(const base::Status& status) {
  if (listener_ != nullptr) listener_->output_failed(status);
}

void KeptAgents::note(const std::string& line) {
  if (listener_ != nullptr) listener_->note(line);
}

void KeptAgents::warn(const std::string& line) {
  if (listener_ != nullptr) listener_->warn(line);
}

}  // namespace muster::launcherd::agents
