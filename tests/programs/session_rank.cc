// A rank that does nothing but have a session: says hello, publishes its pid, waits for all others, prints "pid N", and
// then what it is told of their ends, each with the time of CLOCK_REALTIME in ms. Lives for at most two minutes, or,
// given a number, exits with it as soon as all are there.
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/env.h"
#include "collectives/join/agent_socket.h"
#include "collectives/join/session.h"

namespace {

using namespace muster;
using namespace std::chrono_literals;

int fail(const base::Status& status) {
  std::fprintf(stderr, "session_rank: %s\n", status.message().c_str());
  return 9;
}

std::string variable(const char* name) {
  return base::env_var(name).value_or("");
}

// Until this process ends.
void serve(collectives::Session& session) {
  for (;;) {
    pollfd slot{session.fd(), static_cast<short>(session.wants_write() ? POLLIN | POLLOUT : POLLIN), 0};
    ::poll(&slot, 1, -1);
    if (!session.on_ready().ok()) return;
  }
}

int run(int exit_code) {
  const int rank = std::atoi(variable("MUSTER_RANK").c_str());
  const int size = std::atoi(variable("MUSTER_SIZE").c_str());
  collectives::SessionEvents events;
  events.on_ended = [](int ended, bool failed, const std::string& cause) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    std::printf("%lld rank %d %s: %s\n",
                static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()), ended,
                failed ? "failed" : "ended", cause.c_str());
    std::fflush(stdout);
  };
  events.on_lost = [](const base::Status& why) {
    std::printf("lost: %s\n", why.message().c_str());
    std::fflush(stdout);
  };
  auto socket = collectives::connect_to_agent(variable("MUSTER_SESSION_DIR"));
  if (!socket.ok()) return fail(socket.status());
  auto session = collectives::Session::connect(std::move(*socket), rank, std::move(events), 20s);
  if (!session.ok()) return fail(session.status());
  std::thread([&service = **session] { serve(service); }).detach();
  const std::string prefix = "world" + std::to_string((*session)->generation()) + "/";
  const std::string secret = (*session)->secret();
  base::Status put = (*session)->put(prefix + std::to_string(rank), secret + std::to_string(::getpid()), 20s);
  if (!put.ok()) return fail(put);
  for (int other = 0; other < size; ++other) {
    const auto value = (*session)->wait(prefix + std::to_string(other), 20s);
    if (!value.ok()) return fail(value.status());
    if (value->compare(0, secret.size(), secret) != 0) {
      return fail(base::error(base::Code::kInternal, "rank {} has another secret", other));
    }
  }
  std::printf("pid %d\n", static_cast<int>(::getpid()));
  std::fflush(stdout);
  if (exit_code >= 0) std::_Exit(exit_code);
  ::alarm(120);
  for (;;) ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc > 1 ? std::atoi(argv[1]) : -1);
}
