#include "cli/hosts/pager.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace muster::cli::inline hosts {
namespace {

constexpr std::array kPagersSignals = {SIGINT, SIGQUIT, SIGPIPE};
// sh exits with these if it cannot run the command or does not find it.
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;
// less ends at once if the text fits (F), shows colours (R), and leaves the text on the screen (X).
constexpr std::string_view kLessOptions = "FRX";

// While this exists, the process ignores the signals that belong to the pager.
class SignalsOfPager {
 public:
  SignalsOfPager() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < kPagersSignals.size(); ++i) ::sigaction(kPagersSignals[i], &ignore, &before_[i]);
  }
  ~SignalsOfPager() {
    for (std::size_t i = 0; i < kPagersSignals.size(); ++i) ::sigaction(kPagersSignals[i], &before_[i], nullptr);
  }
  SignalsOfPager(const SignalsOfPager&) = delete;
  SignalsOfPager& operator=(const SignalsOfPager&) = delete;

 private:
  std::array<struct sigaction, kPagersSignals.size()> before_{};
};

bool is_on_path(std::string_view program, const base::Environment& environment) {
  const auto folders = base::split(environment.get("PATH").value_or("/usr/bin:/bin"), ':');
  return std::ranges::any_of(folders, [&](std::string_view folder) {
    return !folder.empty() && ::access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0;
  });
}

// Starts sh with `input` as its stdin. Returns the process, or -1.
pid_t start_shell(const std::string& command, int input, const base::Environment& environment) {
  std::vector<std::string> words = {"/bin/sh", "-c", command};
  std::vector<std::string> variables = environment.to_strings();
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> made;
    for (std::string& text : texts) made.push_back(text.data());
    made.push_back(nullptr);
    return made;
  };
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  if (::posix_spawn_file_actions_init(&actions) != 0) return -1;
  if (::posix_spawnattr_init(&attributes) != 0) {
    ::posix_spawn_file_actions_destroy(&actions);
    return -1;
  }
  sigset_t usual;
  ::sigemptyset(&usual);
  for (const int signo : kPagersSignals) ::sigaddset(&usual, signo);
  pid_t pid = -1;
  const bool is_started = ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO) == 0 &&
                          ::posix_spawnattr_setsigdefault(&attributes, &usual) == 0 &&
                          ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF) == 0 &&
                          ::posix_spawn(&pid, words.front().c_str(), &actions, &attributes, pointers(words).data(),
                                        pointers(variables).data()) == 0;
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return is_started ? pid : -1;
}

// Returns the status of waitpid().
int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

std::string pager_command(const base::Environment& environment) {
  if (is_dumb(environment)) return "";
  auto named = environment.get("MUSTER_PAGER");
  if (!named) named = environment.get("PAGER");
  if (!named) return is_on_path("less", environment) ? fmt::format("less -{}", kLessOptions) : "";
  const std::string_view command = base::trim(*named);
  return command == "cat" ? "" : std::string(command);
}

bool fits_screen(std::string_view text, const Screen& screen) {
  if (screen.rows == 0) return true;
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  return lines < screen.rows;  // one row is for the shell's prompt
}

bool page(const std::string& command, std::string_view text, const base::Environment& environment) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  base::UniqueFd input(ends[0]);
  base::UniqueFd output(ends[1]);
  base::Environment of_pager = environment;
  if (!of_pager.get("LESS")) of_pager.set("LESS", kLessOptions);
  const SignalsOfPager held;
  const pid_t pid = start_shell(command, input.get(), of_pager);
  if (pid < 0) return false;
  input.reset();
  // Ignore failure: a user who closes the pager has seen enough.
  (void)base::write_all_blocking(output.get(), text.data(), text.size());
  output.reset();
  const int status = wait_for(pid);
  return !WIFEXITED(status) || (WEXITSTATUS(status) != kCannotRun && WEXITSTATUS(status) != kNotFound);
}

}  // namespace muster::cli::hosts
