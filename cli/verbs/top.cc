// This file samples hosts and jobs on one thread (SamplingThread), and shows them on the loop thread.
// Read run_top() at the end first, then show_live(), then Sampler and SamplingThread.
#include "cli/verbs/top.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/env.h"
#include "base/loop.h"
#include "base/thread.h"
#include "cli/options/setting_reader.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/launcher_address.h"
#include "cli/verbs/verb.h"
#include "cli/view/live_screen.h"
#include "cli/view/signals.h"
#include "cli/view/top_view.h"
#include "proto/message_json.h"

namespace muster::cli::inline verbs {
namespace {

using launcherd::ApiClient;
using std::chrono::milliseconds;

// Asks all launchers for their current hosts and jobs. Blocks; one thread at a time.
class Sampler {
 public:
  explicit Sampler(const std::optional<launcherd::LauncherAddress>& launcher) {
    if (!launcher) return;
    address_ = format_launcher_address(*launcher);
    client_.emplace(*launcher);
  }

  TopSample take() {
    TopSample sample;
    sample.launcher = address_;
    if (client_) {
      auto hosts = client_->list_hosts(kPatience);
      auto jobs = hosts.ok() ? list_all_jobs(*client_, false) : hosts.status();
      if (hosts.ok()) sample.hosts.assign(hosts->hosts().begin(), hosts->hosts().end());
      if (jobs.ok()) sample.jobs = std::move(*jobs);
      if (!jobs.ok()) sample.problem = jobs.status().message();
    }
    for (const FoundJob& found : foreground_jobs()) {
      ApiClient client(found.launcher);
      auto job = ask_job(client, found, kNoRanks);
      // Skip a failed answer, because it means that the job has ended since foreground_jobs() found it.
      if (job.ok()) sample.jobs.push_back(std::move(*job));
    }
    sample.at = base::SystemClock().wall();
    return sample;
  }

  // Ends a running take() early. Any thread.
  void cancel() {
    if (client_) client_->cancel();
  }

 private:
  std::string address_;
  std::optional<ApiClient> client_;
};

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

// Takes a sample on a thread of its own, each time ask() is called. `on_sample` runs on the loop thread.
class SamplingThread {
 public:
  SamplingThread(base::Loop& loop, Sampler* sampler, std::function<void(TopSample)> on_sample)
      : loop_(loop), sampler_(sampler), on_sample_(std::move(on_sample)) {}
  ~SamplingThread() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    asked_.notify_one();
    sampler_->cancel();
    if (thread_.joinable()) thread_.join();
  }
  SamplingThread(const SamplingThread&) = delete;
  SamplingThread& operator=(const SamplingThread&) = delete;

  base::Status start() {
    MUSTER_ASSIGN_OR_RETURN(thread_, base::start_thread([this] { run(); }));
    return base::ok_status();
  }
  void ask() {
    {
      const std::lock_guard lock(mutex_);
      is_asked_ = true;
    }
    asked_.notify_one();
  }

 private:
  void run() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        asked_.wait(lock, [this] { return is_asked_ || is_ending_; });
        if (is_ending_) return;
        is_asked_ = false;
      }
      auto sample = std::make_shared<TopSample>(sampler_->take());
      loop_.post([this, sample] { on_sample_(std::move(*sample)); });
    }
  }

  base::Loop& loop_;
  Sampler* const sampler_;
  const std::function<void(TopSample)> on_sample_;
  std::mutex mutex_;
  std::condition_variable asked_;
  bool is_asked_ = false;  // guarded by mutex_, like is_ending_
  bool is_ending_ = false;
  std::thread thread_;
};

// Shows samples until the user presses q or Ctrl-C, or until the output cannot be written.
int show_live(const VerbCall& call, Sampler* sampler, milliseconds interval, bool is_screen) {
  base::Loop loop;
  auto signals = Signals::block({SIGINT, SIGTERM, SIGHUP, SIGWINCH});
  if (!signals.ok()) return call.fail(signals.status());
  std::unique_ptr<LiveScreen> screen;
  if (is_screen) screen = std::make_unique<LiveScreen>(STDIN_FILENO, STDOUT_FILENO);
  int exit_code = 0;
  TopSample last;
  const auto show = [&] {
    if (screen != nullptr && !screen->draw(format_top(last))) loop.stop();
    if (screen == nullptr) exit_code = call.print(call.has("json") ? json_of(last) : format_top(last) + "\n");
    if (exit_code != 0) loop.stop();
  };
  SamplingThread sampling(loop, sampler, [&](TopSample sample) {
    last = std::move(sample);
    show();
  });
  signals->watch(loop, [&](int signo) { signo == SIGWINCH ? (is_screen ? show() : void()) : loop.stop(); });
  base::Timer keys;
  if (is_screen) {
    keys = loop.on_readable(STDIN_FILENO, [&] {
      char key = 'q';  // stays 'q' if read() fails because the terminal is gone
      const bool is_read = ::read(STDIN_FILENO, &key, 1) == 1;
      if (!is_read || key == 'q' || key == 'Q') return loop.stop();
      sampling.ask();
    });
  }
  if (const base::Status started = sampling.start(); !started.ok()) return call.fail(started);
  sampling.ask();
  const base::Timer ticks = loop.every(interval, [&] { sampling.ask(); });
  loop.run();
  return exit_code;
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
  const auto launcher = find_launcherd(call.settings(), base::Environment::current());
  if (!launcher.ok()) return call.fail(launcher.status());
  Sampler sampler(*launcher);
  if (call.has("once")) return print_once(call, sampler.take());
  const bool is_screen = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && !call.has("json");
  return show_live(call, &sampler, interval, is_screen);
}

}  // namespace muster::cli::verbs
