// The launcher's side of an elastic Horovod job on this host, for tests with real workers: the driver, the HTTP server
// and the notices. The test starts and ends the processes itself.
//
// It prints one line for each action: "port P", "start GENERATION HOST:LOCAL NUMBERS", "stop HOST:LOCAL",
// "release GENERATION", "notice CODE" and "finish END".
// It reads one line for each event: "hosts HOST:SLOTS...", "exit HOST:LOCAL CODE" and "lost HOST". It ends with its
// stdin. With the argument "no-hold" it answers first PUTs at once, as horovodrun does.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/job/live_keys.h"
#include "base/loop.h"
#include "base/net.h"
#include "launcherd/elastic/elastic_driver.h"
#include "rendezvous/horovod_notifier.h"
#include "rendezvous/horovod_server.h"
#include "rendezvous/horovod_store.h"
#include "rendezvous/local_owner.h"

namespace {

using namespace muster;
using launcherd::ElasticSlot;

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  std::printf("%s\n", fmt::format(format, std::forward<Args>(args)...).c_str());
  std::fflush(stdout);
}

std::string name_of_slot(const ElasticSlot& slot) {
  return fmt::format("{}:{}", slot.host, slot.local_rank);
}

ElasticSlot read_slot(const std::string& word) {
  const auto colon = word.rfind(':');
  return {word.substr(0, colon), std::atoi(word.c_str() + colon + 1)};
}

// All hosts of the job are served by one LiveKeys, which knows a process of its host by the local rank. So each slot of
// the job gets a number in place of its local rank.
class OneHostKeys final : public rendezvous::HorovodKeys {
 public:
  OneHostKeys(agent::LiveKeys& keys, std::function<void(int)> on_first_put)
      : keys_(keys), on_first_put_(std::move(on_first_put)) {}

  int number_of(const ElasticSlot& slot) {
    const auto [found, is_new] = numbers_.emplace(name_of_slot(slot), static_cast<int>(numbers_.size()));
    if (is_new) slots_.push_back(slot);
    return found->second;
  }
  const ElasticSlot& slot_of(int number) const { return slots_.at(static_cast<std::size_t>(number)); }

  void put(std::string_view scope, std::string_view key, rendezvous::HorovodValue value, Done done) override {
    keys_.put(scope, own(scope, key), std::move(value), std::move(done));
    if (scope == "global" && key.starts_with("rank_")) on_first_put_(std::atoi(std::string(key.substr(5)).c_str()));
  }
  void get(std::string_view scope, std::string_view key, GetDone done) override {
    keys_.get(scope, own(scope, key), std::move(done));
  }
  WaitId wait(std::string_view scope, std::string_view key, GetDone done) override {
    return keys_.wait(scope, key, std::move(done));
  }
  void cancel_wait(WaitId id) override { keys_.cancel_wait(id); }
  void finish(std::string_view scope, std::string_view key, Done done) override {
    keys_.finish(scope, key, std::move(done));
  }

 private:
  std::string own(std::string_view scope, std::string_view key) {
    if (scope != "rank_and_size" && scope != "worker_addresses") return std::string(key);
    return fmt::format("host:{}", number_of(read_slot(std::string(key))));
  }

  agent::LiveKeys& keys_;
  const std::function<void(int)> on_first_put_;
  std::map<std::string, int> numbers_;
  std::vector<ElasticSlot> slots_;
};

class ElasticJob {
 public:
  explicit ElasticJob(bool holds) : holds_(holds) {}

  base::Status begin(int np, int min_np) {
    launcherd::ElasticLimits limits;
    limits.np = np;
    limits.min_np = min_np;
    driver_ = std::make_unique<launcherd::ElasticDriver>(limits, time(), [] { return 0.5; });
    MUSTER_ASSIGN_OR_RETURN(base::UniqueFd listening, base::listen_any(0, 4096));
    MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(listening.get()));
    server_ = std::make_unique<rendezvous::HorovodServer>(loop_, std::move(listening), served_,
                                                          rendezvous::allow_local_owner(::getuid()));
    input_ = loop_.on_readable(STDIN_FILENO, [this] { read_input(); });
    say("port {}", port);
    return base::ok_status();
  }

  void run() { loop_.run(); }

 private:
  launcherd::ElasticTime time() const { return {clock_.now(), clock_.wall()}; }

  void on_first_put(int rank) {
    loop_.post([this, rank] {
      driver_->on_first_put(driver_->generation().number, rank, time());
      act();
    });
  }

  void read_input() {
    std::array<char, 256> bytes{};
    const ssize_t size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (size <= 0) return loop_.stop();
    line_.append(bytes.data(), static_cast<std::size_t>(size));
    for (std::size_t end = line_.find('\n'); end != std::string::npos; end = line_.find('\n')) {
      read_line(line_.substr(0, end));
      line_.erase(0, end + 1);
    }
  }

  void read_line(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    std::string verb;
    words >> verb;
    if (verb == "hosts") {
      std::vector<launcherd::ElasticHost> hosts;
      while (words >> word) {
        const ElasticSlot host = read_slot(word);
        hosts.push_back({host.host, host.local_rank});
      }
      driver_->set_hosts(hosts, time());
    } else if (verb == "exit") {
      int code = 0;
      words >> word >> code;
      const ElasticSlot slot = read_slot(word);
      keys_.forget(served_.number_of(slot));
      driver_->on_exit(slot, {.exit_code = code}, time());
    } else if (verb == "lost") {
      words >> word;
      driver_->on_host_lost(word, time());
    }
    act();
  }

  void act() {
    for (const launcherd::ElasticAction& each : driver_->take_actions()) {
      std::visit([this](const auto& action) { carry_out(action); }, each);
    }
    timer_.cancel();
    if (const auto deadline = driver_->deadline()) {
      timer_ = loop_.after(*deadline - clock_.now(), [this] {
        driver_->tick(time());
        act();
      });
    }
  }

  void carry_out(const launcherd::BeginGeneration& begin) {
    std::map<std::string, std::size_t> sizes;
    present_.clear();
    for (const auto& each : begin.generation.plan) {
      ++sizes[each.slot.host];
      present_.insert(served_.number_of(each.slot));
    }
    hosts_.clear();
    for (const auto& [name, size] : sizes) hosts_.push_back({name, size});
    keys_.hold(present_);
    if (!holds_) open_store();
    for (const auto& each : begin.to_start) {
      say("start {} {} {}", begin.generation.number, name_of_slot(each.slot), launcherd::format_slot_plan(each.plan));
    }
  }

  // Serves an empty store to the generation that was begun last, and what was held.
  void open_store() {
    store_.renew(rendezvous::make_horovod_plan(hosts_));
    keys_.use(store_keys_, present_);
  }

  void carry_out(const launcherd::ReleaseAnswers& release) {
    if (holds_) open_store();
    for (const auto& each : release.answers) {
      keys_.answer(served_.number_of(each.slot), launcherd::format_slot_plan(each.plan));
    }
    say("release {}", release.generation);
  }

  void carry_out(const launcherd::NotifyWorker& notice) {
    const std::string address = keys_.notification_address(served_.number_of(notice.slot));
    const auto done = [this, slot = notice.slot](const base::Status& status) {
      say("notice {}", status.ok() ? "OK" : status.message());
      if (!status.ok()) driver_->on_notice_failed(slot, time());
      act();
    };
    notifier_.notify(address, notice.timestamp, launcherd::kHostsMixed, done);
  }

  void carry_out(const launcherd::StopSlots& stop) {
    for (const ElasticSlot& slot : stop.slots) say("stop {}", name_of_slot(slot));
  }

  void carry_out(const launcherd::FinishJob& finish) { say("finish {}", name_of(finish.end)); }

  const bool holds_;
  base::SystemClock clock_;
  base::Loop loop_;
  rendezvous::HorovodStore store_{{}};
  rendezvous::HorovodStoreKeys store_keys_{store_};
  agent::LiveKeys keys_{{.on_check_in =
                             [this](int number) {
                               loop_.post([this, slot = served_.slot_of(number)] {
                                 driver_->on_rank_and_size(slot, time());
                                 act();
                               });
                             },
                         .on_first_put = [](int) {}}};  // served_ reports those that are not held, too
  OneHostKeys served_{keys_, [this](int rank) { on_first_put(rank); }};
  std::set<int> present_;  // slots of the present generation, by their numbers
  std::vector<rendezvous::HorovodHost> hosts_;
  rendezvous::HorovodNotifier notifier_{loop_};
  std::unique_ptr<launcherd::ElasticDriver> driver_;
  std::unique_ptr<rendezvous::HorovodServer> server_;
  base::Timer input_;
  base::Timer timer_;
  std::string line_;
};

}  // namespace

// Arguments: np, min-np, and "hold" or "no-hold".
int main(int argc, char** argv) {
  if (argc != 4) return 2;
  ::signal(SIGPIPE, SIG_IGN);
  ElasticJob job(std::string_view(argv[3]) == "hold");
  if (const base::Status status = job.begin(std::atoi(argv[1]), std::atoi(argv[2])); !status.ok()) {
    std::fprintf(stderr, "elastic_job: %s\n", status.message().c_str());
    return 1;
  }
  job.run();
  return 0;
}
