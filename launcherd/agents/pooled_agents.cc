#include "launcherd/agents/pooled_agents.h"

#include <utility>

#include "base/tls_keys.h"
#include "launcherd/agents/pool_core.h"

namespace muster::launcherd::inline agents {

PooledAgents::PooledAgents(HostPool::Core& pool, PooledJob job) : pool_(pool), job_(std::move(job)) {}

PooledAgents::~PooledAgents() {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    pool_.sessions().detach(hosts_[i].target, job_.job_id, static_cast<int>(i));
  }
  if (listener_ != nullptr) pool_.hub().remove_job(job_.job_id);
}

base::Status PooledAgents::start(std::vector<AgentHost> hosts, OutputSink* sink, AgentListener* listener) {
  hosts_.assign(hosts.begin(), hosts.end());
  meter_ = pool_.job_meter(job_.job_id);
  listener_ = listener;
  // Wraps `function` for the hub's thread. `function` then runs on the loop, and only while this object lives.
  const auto posted = [this](auto function) {
    return [&loop = pool_.loop(), weak = weak_from_this(), function](const auto& argument) {
      loop.post([weak, function, argument] {
        if (const auto self = weak.lock()) function(*self->listener_, argument);
      });
    };
  };
  if (!job_.resumes) sink->begin_attempt(job_.attempt);
  OutputHubEvents events;
  events.on_agent_complete = posted([](AgentListener& to, int agent) { to.output_complete(agent); });
  events.on_agent_cut = posted([](AgentListener& to, int agent) { to.output_cut(agent); });
  events.on_error = posted([](AgentListener& to, const base::Status& status) { to.output_failed(status); });
  pool_.hub().add_job(job_.job_id, sink, std::move(events));
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!hosts_[i].is_unused) attach(static_cast<int>(i));
  }
  return base::ok_status();
}

base::Status PooledAgents::add(AgentHost host) {
  hosts_.push_back(std::move(host));
  return base::ok_status();
}

void PooledAgents::attach(int agent) {
  PoolSession session;
  session.owner = this;
  session.agent = agent;
  session.resumes = job_.resumes;
  session.was_running = job_.was_running;
  session.open.set_attempt(job_.attempt);
  session.open.set_agent_index(agent);
  session.open.set_contain(job_.contain);
  session.open.set_session_root(pool_.options().session_root);
  session.open.set_lease_ms(job_.lease.count());
  session.open.set_hold(job_.hold);
  session.open.set_output_token(output_secret(agent));
  session.open.set_output_port(pool_.output_port());
  pool_.sessions().attach(at(agent), job_.job_id, std::move(session));
}

std::string PooledAgents::output_secret(int agent) const {
  return base::derive_secret(job_.secret, std::to_string(agent));
}

void PooledAgents::send(int agent, v1::LauncherMessage message) {
  pool_.sessions().send(at(agent).target, job_.job_id, agent, std::move(message), true);
}

void PooledAgents::send_unnumbered(int agent, v1::LauncherMessage message) {
  pool_.sessions().send(at(agent).target, job_.job_id, agent, std::move(message), false);
}

void PooledAgents::expect_output(int agent, const std::vector<int>& ranks) {
  ExpectedAgent expected{.agent = agent, .secret = output_secret(agent), .ranks = ranks, .host = at(agent).target.name};
  expected.counters = {counter_of(meter_), counter_of(pool_.host_meter(at(agent).target))};
  if (job_.with_past) expected = job_.with_past(std::move(expected));
  const base::Status done = pool_.hub().expect_agent(job_.job_id, std::move(expected));
  if (!done.ok()) listener_->output_failed(done);
}

void PooledAgents::expect_more_output(int agent, const std::vector<int>& ranks) {
  pool_.hub().expect_ranks(job_.job_id, agent, ranks);
}

void PooledAgents::output_ends(int agent) {
  pool_.hub().agent_ended(job_.job_id, agent);
}

void PooledAgents::leave(int agent) {
  pool_.sessions().detach(at(agent).target, job_.job_id, agent);
}

void PooledAgents::drop(int agent) {
  pool_.sessions().detach(at(agent).target, job_.job_id, agent);
  pool_.hub().forget_agent(job_.job_id, agent);
}

void PooledAgents::sweep(int agent, std::function<void(base::Result<CommandResult>)> done) {
  pool_.sessions().sweep(at(agent).target, job_.job_id,
                         [weak = weak_from_this(), done = std::move(done)](const base::Result<CommandResult>& result) {
                           if (weak.lock() != nullptr) done(result);
                         });
}

void PooledAgents::pool_failed(int agent, const std::string& message) {
  listener_->agent_failed(agent, message);
}

void PooledAgents::pool_gone(int agent, const std::string& why) {
  listener_->agent_gone(agent, base::unavailable("{}", why));
}

void PooledAgents::pool_unreadable(int agent) {
  listener_->agent_unreadable(agent);
}

void PooledAgents::pool_up(int agent, AgentUp up) {
  listener_->agent_up(agent, std::move(up));
}

void PooledAgents::pool_message(int agent, const v1::AgentMessage& message) {
  listener_->agent_message(agent, message);
}

void PooledAgents::pool_stream(int agent, bool is_there) {
  listener_->agent_stream(agent, is_there);
}

}  // namespace muster::launcherd::agents
