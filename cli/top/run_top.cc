// Runs `muster top`: asks on one thread (LatestTask), shows on the loop thread.
// Read run_top() at the end first, then show_screen() and print_samples().
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/env.h"
#include "base/loop.h"
#include "cli/options/setting_reader.h"
#include "cli/top/curses_screen.h"
#include "cli/top/latest_task.h"
#include "cli/top/top.h"
#include "cli/top/top_asker.h"
#include "cli/verbs/launcher_address.h"
#include "cli/verbs/verb.h"
#include "cli/view/signals.h"
#include "proto/message_json.h"

namespace muster::cli::inline top {
namespace {

using std::chrono::milliseconds;

std::string json_of(const TopSample& sample) {
  v1::ListHostsResponse hosts;
  hosts.mutable_hosts()->Add(sample.hosts.begin(), sample.hosts.end());
  v1::ListJobsResponse jobs;
  jobs.mutable_jobs()->Add(sample.jobs.begin(), sample.jobs.end());
  return proto::message_line(hosts) + proto::message_line(jobs);
}

int print_once(const VerbCall& call, const TopSample& sample) {
  const int printed = call.print(call.has("json") ? json_of(sample) : format_top(sample));
  if (printed != 0 || sample.problem.empty()) return printed;
  return call.has("json") ? call.fail(sample.problem, kNotAnswered) : kNotAnswered;
}

// Ends the running question before `asking` waits for it.
struct Cancelled {
  TopAsker& asker;
  ~Cancelled() { asker.cancel(); }
};

// Prints a sample each `interval`, until a signal comes or the output cannot be written.
int print_samples(const VerbCall& call, TopAsker& asker, milliseconds interval) {
  base::Loop loop;
  auto signals = Signals::block({SIGINT, SIGTERM, SIGHUP});
  if (!signals.ok()) return call.fail(signals.status());
  signals->watch(loop, [&](int) { loop.stop(); });
  int exit_code = 0;
  LatestTask asking;
  const Cancelled cancelled{asker};
  const auto ask = [&] {
    asking.run([&] {
      auto sample = std::make_shared<TopSample>(asker.sample());
      loop.post([&, sample] {
        exit_code = call.print(call.has("json") ? json_of(*sample) : format_top(*sample) + "\n");
        if (exit_code != 0) loop.stop();
      });
    });
  };
  if (const base::Status started = asking.start(); !started.ok()) return call.fail(started);
  ask();
  const base::Timer ticks = loop.every(interval, ask);
  loop.run();
  return exit_code;
}

// Stops this process as Ctrl-Z does, until a SIGCONT. The signal is blocked otherwise (Signals::block()).
void stop_ourselves() {
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

// The screen and what it shows. Loop thread only.
class LiveTop {
 public:
  LiveTop(base::Loop& loop, TopAsker& asker, CursesScreen& screen)
      : loop_(loop), asker_(asker), screen_(screen), state_(asker.address()) {
    state_.set_time(base::SystemClock().wall());
    fit();
  }

  base::Status start() { return asking_.start(); }

  void ask() {
    asking_.run([this, query = state_.query()] {
      auto answer = std::make_shared<TopAnswer>(asker_.answer(query));
      loop_.post([this, answer] {
        state_.take(std::move(*answer));
        paint();
      });
    });
  }

  void tick() {
    state_.set_time(base::SystemClock().wall());
    paint();
  }

  void on_keys() {
    const auto keys = screen_.read_keys();
    if (!keys) return loop_.stop();
    for (const KeyPress& key : *keys) {
      if (!state_.apply(key)) return loop_.stop();
    }
    paint();
    ask();
  }

  void on_signal(int signo) {
    if (signo == SIGTSTP) {
      screen_.suspend();
      stop_ourselves();
      screen_.resume();
    } else if (signo == SIGWINCH) {
      screen_.resize();
    } else {
      return loop_.stop();
    }
    fit();
    ask();
  }

 private:
  void fit() {
    const TerminalSize size = screen_.size();
    state_.resize(size.rows, size.columns);
    paint();
  }
  void paint() { screen_.paint(frame_of(state_)); }

  base::Loop& loop_;
  TopAsker& asker_;
  CursesScreen& screen_;
  TopState state_;
  LatestTask asking_;
};

// Shows the screen until the user ends it.
int show_screen(const VerbCall& call, TopAsker& asker, milliseconds interval, const CursesOptions& options) {
  base::Loop loop;
  auto signals = Signals::block({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP});
  if (!signals.ok()) return call.fail(signals.status());
  auto screen = CursesScreen::open(options);
  if (!screen.ok()) return call.fail(screen.status());
  LiveTop live(loop, asker, **screen);
  const Cancelled cancelled{asker};
  if (const base::Status started = live.start(); !started.ok()) {
    screen->reset();
    return call.fail(started);
  }
  signals->watch(loop, [&](int signo) { live.on_signal(signo); });
  const base::Timer keys = loop.on_readable(STDIN_FILENO, [&] { live.on_keys(); });
  live.ask();
  const base::Timer questions = loop.every(interval, [&] { live.ask(); });
  const base::Timer ticks = loop.every(std::min(interval, milliseconds(1000)), [&] { live.tick(); });
  loop.run();
  return 0;
}

}  // namespace

int run_top(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, top_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  if (!call.words().empty()) return call.fail("no word is expected: muster top shows all hosts and jobs");
  milliseconds interval{1000};
  SettingReader read(call.settings());
  read.time("interval", milliseconds(100), interval);
  if (!read.status().ok()) return call.fail(read.status());
  const base::Environment environment = base::Environment::current();
  const auto launcher = find_launcherd(call.settings(), environment);
  if (!launcher.ok()) return call.fail(launcher.status());
  TopAsker asker(*launcher);
  if (call.has("once")) return print_once(call, asker.sample());
  const bool is_screen = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && !call.has("json");
  if (!is_screen) return print_samples(call, asker, interval);
  const CursesOptions options{.term = std::string(environment.get("TERM").value_or("")),
                              .has_colors = call.console().look().has_color,
                              .has_mouse = !call.has("no-mouse")};
  return show_screen(call, asker, interval, options);
}

}  // namespace muster::cli::top
