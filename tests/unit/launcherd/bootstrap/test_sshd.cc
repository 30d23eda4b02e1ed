#include "tests/unit/launcherd/bootstrap/test_sshd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "tests/unit/support/temp_dir.h"

extern char** environ;

namespace muster::launcherd {
namespace {

int run_quietly(const std::vector<std::string>& line) {
  std::vector<char*> argv;
  for (const std::string& word : line) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int rc = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  if (rc != 0 || ::waitpid(pid, &status, 0) != pid) return -1;
  return status;
}

int free_port() {
  const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto loopback = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), 0);
  if (::bind(fd.get(), loopback.get(), loopback.size) != 0) return 0;
  const auto port = base::local_port(fd.get());
  return port.ok() ? *port : 0;
}

std::string own_name() {
  const passwd* entry = ::getpwuid(::getuid());
  return entry != nullptr ? entry->pw_name : "";
}

}  // namespace

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string fake_agent_path() {
  return MUSTER_TEST_PROGRAMS "/fake_agent";
}

TestSshd::TestSshd(const TestSshdOptions& options) {
  if (::access("/usr/sbin/sshd", X_OK) != 0) {
    fail("/usr/sbin/sshd is not installed (openssh-server)");
    return;
  }
  if (::getuid() == 0) ::mkdir("/run/sshd", 0755);  // usually made by a boot script
  if (!make_files(options)) return;
  for (int attempt = 0; attempt < 5 && port_ == 0; ++attempt) {
    if (!listen()) port_ = 0;
  }
  if (port_ == 0) fail("sshd does not start: " + read_text(directory_ / "sshd.log"));
}

bool TestSshd::make_files(const TestSshdOptions& options) {
  for (const char* part : {"client", "home", "server"}) ::mkdir((directory_ / part).c_str(), 0700);
  for (const std::string& path : {directory_ / "server/host_key", key()}) {
    if (run_quietly({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path}) != 0) {
      fail("ssh-keygen failed");
      return false;
    }
  }
  write_file(directory_ / "server/authorized_keys", read_text(key() + ".pub"));
  write_file(home() + "/.bashrc", options.bashrc);
  // sshd's own home is that of the password database.
  const std::string sftp = directory_ / "server/sftp";
  write_file(sftp, "#!/bin/sh\ncd " + home() + " && exec /usr/lib/openssh/sftp-server\n");
  ::chmod(sftp.c_str(), 0700);
  write_file(directory_ / "server/config",
             options.extra_config + "\nListenAddress 127.0.0.1\nHostKey " + directory_ / "server/host_key" +
                 "\nAuthorizedKeysFile " + directory_ / "server/authorized_keys" +
                 "\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n"
                 "KbdInteractiveAuthentication no\nLogLevel VERBOSE\nSetEnv HOME=" +
                 home() + "\nSubsystem sftp " + (options.subsystem.empty() ? sftp : options.subsystem) + "\n");
  write_file(client_config(), "");
  return true;
}

bool TestSshd::listen() {
  port_ = free_port();
  const std::string port = std::to_string(port_);
  const std::string config = directory_ / "server/config";
  const std::vector<std::string> line = {"/usr/sbin/sshd", "-D", "-e", "-f", config, "-p", port};
  std::vector<char*> argv;
  for (const std::string& word : line) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  auto pipe = base::make_pipe();
  if (!pipe.ok()) return false;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe->second.get(), 2);
  const int rc = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  pipe->second.reset();
  if (rc != 0) return false;
  // sshd reports when it is ready. Later lines are read and dropped, so that sshd never blocks.
  std::string log_text;
  char c = 0;
  while (log_text.find("Server listening") == std::string::npos && ::read(pipe->first.get(), &c, 1) == 1) log_text += c;
  const bool is_up = log_text.find("Server listening") != std::string::npos;
  write_file(directory_ / "sshd.log", log_text);
  if (!is_up) {
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
    return false;
  }
  std::thread([fd = std::make_shared<base::UniqueFd>(std::move(pipe->first))] {
    char buffer[4096];
    while (::read(fd->get(), buffer, sizeof buffer) > 0) {
    }
  }).detach();
  return true;
}

TestSshd::~TestSshd() {
  if (pid_ != 0) {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
}

BootstrapOptions TestSshd::options(SshBackend backend) const {
  BootstrapOptions options;
  options.backend = backend;
  options.identity_file = key();
  options.agent_path = fake_agent_path();
  options.agent_id = "fake-build";
  options.start_timeout = std::chrono::seconds(60);  // long, because a busy machine is no failure
  return options;
}

SshSurroundings TestSshd::surroundings() const {
  SshSurroundings result;
  result.home = directory_ / "client";
  result.user = own_name();
  result.user_config = client_config();
  result.known_hosts = known_hosts();
  result.global_known_hosts = directory_ / "client/global_known_hosts";
  result.ssh_args = {
      "-F", client_config(),     "-o", "UserKnownHostsFile=" + known_hosts(), "-o", "GlobalKnownHostsFile=/dev/null",
      "-o", "IdentitiesOnly=yes"};
  return result;
}

AgentImage TestSshd::image() const {
  return *AgentImage::open(fake_agent_path());
}

namespace {
constexpr auto kPatience = std::chrono::seconds(150);
}

base::Result<StartedAgent> start_agent(Bootstrap& bootstrap, const BootstrapTarget& target, std::string join) {
  auto promise = std::make_shared<std::promise<base::Result<StartedAgent>>>();
  auto future = promise->get_future();
  bootstrap.start(target, ready_join(std::move(join)),
                  [promise](auto result) { promise->set_value(std::move(result)); });
  if (future.wait_for(kPatience) != std::future_status::ready) return base::error(base::Code::kInternal, "no answer");
  return future.get();
}

base::Result<CommandResult> run_agent(Bootstrap& bootstrap, const BootstrapTarget& target,
                                      std::vector<std::string> args) {
  auto promise = std::make_shared<std::promise<base::Result<CommandResult>>>();
  auto future = promise->get_future();
  bootstrap.run(target, std::move(args), [promise](auto result) { promise->set_value(std::move(result)); });
  if (future.wait_for(kPatience) != std::future_status::ready) return base::error(base::Code::kInternal, "no answer");
  return future.get();
}

std::string read_up_to(int fd, std::size_t size) {
  std::string text(size, '\0');
  std::size_t got = 0;
  while (got < size) {
    const ssize_t count = ::read(fd, text.data() + got, size - got);
    if (count <= 0) break;
    got += static_cast<std::size_t>(count);
  }
  text.resize(got);
  return text;
}

void expect_echo(const StartedAgent& agent, const std::string& text) {
  ASSERT_TRUE(base::write_all_blocking(agent.stream.get(), text.data(), text.size()).ok());
  EXPECT_EQ(read_up_to(agent.stream.get(), text.size()), text);
}

OwnResources own_resources() {
  OwnResources result;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++result.fds;
  }
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream children(thread.path() / "children");
    result.children +=
        static_cast<std::size_t>(std::distance(std::istream_iterator<int>(children), std::istream_iterator<int>()));
  }
  return result;
}

}  // namespace muster::launcherd
