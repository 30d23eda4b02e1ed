#include "agent/io/launcher_link.h"

#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/thread.h"
#include "proto/output_frame.h"

namespace muster::agent::inline io {
namespace {

void block_sigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

base::Result<LauncherLink> open_launcher_link_blocking(const OutputSenderConfig& config, int cancel_fd) {
  const base::MonotonicTime deadline = std::chrono::steady_clock::now() + config.attempt_timeout;
  // Make the TLS context only now, because a job without output does not need it.
  MUSTER_ASSIGN_OR_RETURN(const base::TlsContext tls, base::TlsContext::client(config.key));
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd fd, config.connect(deadline, cancel_fd));
  base::tune_output_socket(fd.get());
  base::TlsStream stream(tls, std::move(fd));
  MUSTER_RETURN_IF_ERROR(stream.handshake_blocking(deadline, cancel_fd));
  const std::string hello = proto::encode_output_frame(
      {.kind = proto::OutputKind::kHello, .rank = static_cast<std::uint32_t>(config.agent_index)}, {});
  MUSTER_RETURN_IF_ERROR(stream.write_all_blocking(hello.data(), hello.size(), deadline, cancel_fd));
  std::array<char, proto::kOutputHeaderSize> answer;
  MUSTER_RETURN_IF_ERROR(stream.read_exactly_blocking(answer.data(), answer.size(), deadline, cancel_fd));
  MUSTER_ASSIGN_OR_RETURN(const proto::OutputParse parse, proto::parse_output_frame({answer.data(), answer.size()}));
  if (parse.state != proto::OutputParse::State::kFrame || parse.frame.header.kind != proto::OutputKind::kResume) {
    return base::invalid_argument("output connection: the launcher answered Hello with something else");
  }
  return LauncherLink{std::move(stream), parse.frame.header.sequence, {}};
}

Connector::Connector(const OutputSenderConfig* config, std::function<void(base::Result<LauncherLink>)> on_result)
    : config_(config), on_result_(std::move(on_result)), cancel_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Connector::~Connector() {
  cancel();
  if (thread_.joinable()) thread_.join();
}

void Connector::attempt() {
  if (thread_.joinable()) thread_.join();
  auto thread = base::start_thread([this] {
    block_sigpipe();
    on_result_(open_launcher_link_blocking(*config_, cancel_fd_.get()));
  });
  if (!thread.ok()) return on_result_(thread.status());
  thread_ = std::move(*thread);
}

void Connector::cancel() {
  eventfd_write(cancel_fd_.get(), 1);
}

}  // namespace muster::agent::io
