// LibsshSession: connects libssh to a socket, exchanges keys, checks the host key and authenticates.
// Read log_in first, then the steps in its order; drive() is the wait loop of all of them.
#include "launcherd/ssh/libssh_session.h"

#include <fcntl.h>
#include <libssh/libssh.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "launcherd/ssh/known_hosts.h"

namespace muster::launcherd::inline ssh {
namespace {

struct KeyDeleter {
  void operator()(ssh_key_struct* key) const { ::ssh_key_free(key); }
};
using Key = std::unique_ptr<ssh_key_struct, KeyDeleter>;

void append_word(std::string& list, const std::string& word) {
  if (!list.empty()) list += ", ";
  list += word;
}

}  // namespace

LibsshSession::LibsshSession() : session_(::ssh_new()) {}

LibsshSession::~LibsshSession() {
  // Never call ssh_disconnect, because it does not close a socket that we opened. ssh_free closes the socket.
  ::ssh_free(session_);
}

bool LibsshSession::is_write_pending() const {
  return (::ssh_get_poll_flags(session_) & SSH_WRITE_PENDING) != 0;
}

void LibsshSession::rearm_quickack() const {
  const int on = 1;
  // TCP_QUICKACK only improves latency. Ignore errors, because some sockets (a test's socketpair) do not support it.
  (void)::setsockopt(poll_fd_.get(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

Failure LibsshSession::connection_failure() const {
  return {.kind = FailureKind::kClosed, .detail = quote_for_message(::ssh_get_error(session_))};
}

Failure LibsshSession::drive(const Waiter& waiter, int again, const std::function<int()>& call, int& result) {
  for (;;) {
    result = call();
    if (result != again) return {};
    const pollfd fd{poll_fd_.get(), static_cast<short>(is_write_pending() ? POLLIN | POLLOUT : POLLIN), 0};
    if (Failure failure = wait_failure(waiter.wait({&fd, 1})); !failure.ok()) return failure;
    rearm_quickack();
  }
}

Failure LibsshSession::log_in(const SshLogin& login, base::UniqueFd socket, const Waiter& waiter) {
  if (session_ == nullptr) return {.kind = FailureKind::kSshFailed, .detail = "no memory for an ssh session here"};
  if (Failure failure = exchange_keys(login, std::move(socket), waiter); !failure.ok()) return failure;
  if (Failure failure = check_host_key(login); !failure.ok()) return failure;
  return authenticate(login, waiter);
}

Failure LibsshSession::exchange_keys(const SshLogin& login, base::UniqueFd socket, const Waiter& waiter) {
  const int on = 1;
  (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  poll_fd_.reset(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!poll_fd_.valid()) {
    return {.kind = FailureKind::kSshFailed, .detail = base::errno_error(errno, "dup").message()};
  }
  rearm_quickack();
  const bool no = false;
  const auto port = static_cast<unsigned>(login.port);
  int fd = socket.get();
  const bool is_set =
      ::ssh_options_set(session_, SSH_OPTIONS_HOST, login.host.c_str()) == SSH_OK &&
      ::ssh_options_set(session_, SSH_OPTIONS_PORT, &port) == SSH_OK &&
      ::ssh_options_set(session_, SSH_OPTIONS_USER, login.user.c_str()) == SSH_OK &&
      ::ssh_options_set(session_, SSH_OPTIONS_PROCESS_CONFIG, &no) == SSH_OK &&
      ::ssh_options_set(session_, SSH_OPTIONS_KNOWNHOSTS, login.known_hosts.c_str()) == SSH_OK &&
      ::ssh_options_set(session_, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, login.global_known_hosts.c_str()) == SSH_OK &&
      ::ssh_options_set(session_, SSH_OPTIONS_FD, &fd) == SSH_OK;
  if (!is_set) return {.kind = FailureKind::kSshFailed, .detail = quote_for_message(::ssh_get_error(session_))};
  (void)socket.release();  // libssh now closes the socket
  ::ssh_set_blocking(session_, 0);

  int rc = SSH_ERROR;
  Failure failure = drive(
      waiter, SSH_AGAIN, [this] { return ::ssh_connect(session_); }, rc);
  if (failure.kind == FailureKind::kTimeout) {
    failure.detail = "connected, but sshd did not complete the key exchange";
    if (::ssh_get_serverbanner(session_) == nullptr) failure.detail = "connected, but no sshd answered";
  }
  if (!failure.ok()) return failure;
  if (rc == SSH_OK) return {};
  failure = connection_failure();
  failure.is_before_banner = ::ssh_get_serverbanner(session_) == nullptr;
  if (!failure.is_before_banner && failure.detail.find("disconnected") == std::string::npos &&
      failure.detail.find("DISCONNECT") == std::string::npos &&
      failure.detail.find("Socket error") == std::string::npos) {
    failure.kind = FailureKind::kSshFailed;  // for example no common algorithm, or a broken signature
  }
  return failure;
}

Failure LibsshSession::check_host_key(const SshLogin& login) {
  switch (::ssh_session_is_known_server(session_)) {
    case SSH_KNOWN_HOSTS_OK:
      return {};
    case SSH_KNOWN_HOSTS_CHANGED:
    case SSH_KNOWN_HOSTS_OTHER:
      return {.kind = FailureKind::kHostKeyChanged, .detail = login.known_hosts};
    case SSH_KNOWN_HOSTS_UNKNOWN:
    case SSH_KNOWN_HOSTS_NOT_FOUND:
      break;
    case SSH_KNOWN_HOSTS_ERROR:
      return {.kind = FailureKind::kSshFailed, .detail = quote_for_message(::ssh_get_error(session_))};
  }
  if (!login.accept_new_keys) return {.kind = FailureKind::kHostKeyUnknown};
  char* line = nullptr;
  if (::ssh_session_export_known_hosts_entry(session_, &line) != SSH_OK || line == nullptr) {
    return {.kind = FailureKind::kSshFailed, .detail = "cannot read the host key"};
  }
  const std::string entry(line);
  ::ssh_string_free_char(line);
  const base::Status added = add_known_host(login.known_hosts, entry, login.hash_new_keys);
  if (login.on_new_host_key) {
    login.on_new_host_key(added.ok() ? fmt::format("new host key accepted and added to {}", login.known_hosts)
                                     : fmt::format("new host key accepted, but not stored: {}", added.message()));
  }
  return {};
}

Failure LibsshSession::try_key_file(const std::string& path, bool is_only_one, const Waiter& waiter, bool& is_in) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  if (info.st_uid == ::getuid() && (info.st_mode & 077) != 0) {
    append_word(skipped_, path + ": other users may read it, so run chmod 600 on it");
    return {};
  }
  ssh_key raw = nullptr;
  if (::ssh_pki_import_privkey_file(path.c_str(), nullptr, nullptr, nullptr, &raw) != SSH_OK) {
    has_unusable_keys_ = true;
    append_word(skipped_, path + ": has a passphrase or an unsupported format, so load it with ssh-add");
    return {};
  }
  const Key key(raw);
  append_word(tried_, path);
  int rc = SSH_AUTH_ERROR;
  if (!is_only_one) {  // ask the host first, because a signature costs more than a question
    ssh_key raw_public = nullptr;
    if (::ssh_pki_export_privkey_to_pubkey(key.get(), &raw_public) != SSH_OK) return {};
    const Key public_key(raw_public);
    Failure failure = drive(
        waiter, SSH_AUTH_AGAIN, [&] { return ::ssh_userauth_try_publickey(session_, nullptr, public_key.get()); }, rc);
    if (!failure.ok()) return failure;
    if (rc == SSH_AUTH_DENIED) return {};
  }
  if (is_only_one || rc == SSH_AUTH_SUCCESS) {
    Failure failure = drive(
        waiter, SSH_AUTH_AGAIN, [&] { return ::ssh_userauth_publickey(session_, nullptr, key.get()); }, rc);
    if (!failure.ok()) return failure;
  }
  is_in = rc == SSH_AUTH_SUCCESS;
  return rc == SSH_AUTH_ERROR ? connection_failure() : Failure{};
}

Failure LibsshSession::try_agent(const Waiter& waiter, bool& is_in) {
  if (::getenv("SSH_AUTH_SOCK") == nullptr) return {};
  int rc = SSH_AUTH_ERROR;
  Failure failure = drive(
      waiter, SSH_AUTH_AGAIN, [this] { return ::ssh_userauth_agent(session_, nullptr); }, rc);
  if (!failure.ok()) return failure;
  append_word(tried_, "ssh-agent");
  is_in = rc == SSH_AUTH_SUCCESS;
  if (!is_in) has_unusable_keys_ = true;  // ssh-agent may hold certificates and hardware keys
  return ::ssh_is_connected(session_) != 0 ? Failure{} : connection_failure();
}

Failure LibsshSession::authenticate(const SshLogin& login, const Waiter& waiter) {
  bool is_in = false;
  Failure failure;
  const bool is_agent_first = login.use_agent && login.identity_files.size() != 1;
  if (is_agent_first) failure = try_agent(waiter, is_in);
  for (const std::string& path : login.identity_files) {
    if (is_in || !failure.ok()) break;
    failure = try_key_file(path, login.identity_files.size() == 1, waiter, is_in);
  }
  if (!is_in && failure.ok() && login.use_agent && !is_agent_first) failure = try_agent(waiter, is_in);
  if (failure.kind == FailureKind::kTimeout) failure.detail = "during authentication";
  const bool is_refusal =
      failure.kind == FailureKind::kClosed && failure.detail.find("uthentication failures") != std::string::npos;
  if (is_in || (!failure.ok() && !is_refusal)) return failure;
  std::string detail = tried_.empty() ? "no usable key was found" : "tried " + tried_;
  if (!skipped_.empty()) detail += "; skipped " + skipped_;
  return {.kind = FailureKind::kAuthRefused, .detail = std::move(detail)};
}

LibsshLink::LibsshLink(std::shared_ptr<LibsshSession> session, Pump& pump, std::string address)
    : session_(std::move(session)), pump_(pump), address_(std::move(address)) {}

Failure LibsshLink::start(LibsshProgram::Kind kind, const std::string& what, const Waiter& waiter,
                          std::unique_ptr<RemoteProgram>& program) {
  auto started = std::make_unique<LibsshProgram>(session_, pump_);
  if (Failure failure = started->start(kind, what, waiter); !failure.ok()) return failure;
  program = std::move(started);
  return {};
}

Failure LibsshLink::exec(const std::string& command, const Waiter& waiter, std::unique_ptr<RemoteProgram>& program) {
  return start(LibsshProgram::Kind::kCommand, command, waiter, program);
}

Failure LibsshLink::subsystem(const std::string& name, const Waiter& waiter, std::unique_ptr<RemoteProgram>& program) {
  return start(LibsshProgram::Kind::kSubsystem, name, waiter, program);
}

std::vector<base::IpAddress> LibsshLink::launcher_addresses() const {
  const auto address = base::local_address(session_->poll_fd());
  return address.ok() ? std::vector<base::IpAddress>{*address} : std::vector<base::IpAddress>{};
}

std::optional<base::IpAddress> LibsshLink::host_address() const {
  const auto address = base::peer_address(session_->poll_fd());
  return address.ok() ? std::optional<base::IpAddress>(*address) : std::nullopt;
}

}  // namespace muster::launcherd::ssh
