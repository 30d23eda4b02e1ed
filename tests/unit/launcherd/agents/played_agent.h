// An agent that a test plays: how it was started, and how it answers the launcher.
#pragma once

#include <signal.h>
#include <sys/socket.h>

#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "agent/link/control_client.h"
#include "base/loop.h"
#include "base/net.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "proto/control_key.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::testing_support {

// An agent that was started. The agent's end of the log-in is put into `stdio`.
inline launcherd::StartedAgent started_agent(base::UniqueFd& stdio) {
  auto pair = base::make_socketpair(SOCK_STREAM);
  EXPECT_TRUE(pair.ok()) << pair.status();
  stdio = std::move(pair->second);
  launcherd::StartedAgent agent;
  agent.stream = std::move(pair->first);
  agent.backend = "fake";
  return agent;
}

// Answers as the agent does that was started with `join`. `hello` says what it tells of its host; the job and the
// agent's index are those of `join`.
inline std::unique_ptr<agent::ControlClient> play_agent(base::Loop& loop, const v1::AgentJoin& join,
                                                        v1::Hello hello = {}) {
  ::signal(SIGPIPE, SIG_IGN);  // as the agent does
  hello.set_job_id(join.job_id());
  hello.set_agent_index(join.agent_index());
  agent::ControlClientOptions options;
  options.route = std::make_shared<agent::LauncherRoute>(*base::IpAddress::parse("127.0.0.1"));
  options.port = static_cast<std::uint16_t>(join.control_port());
  options.key = proto::control_key(join.job_id(), join.token());
  return agent::ControlClient::start(loop, std::move(options), std::move(hello));
}

}  // namespace muster::testing_support
