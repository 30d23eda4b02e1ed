// A JobManager with a real store, and hosts on which no agent can be started.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "launcherd/daemon/job_manager.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::testing_support {

inline v1::SubmitRequest request_of(int size, const std::string& request_id = "") {
  v1::SubmitRequest request;
  request.mutable_spec()->add_command("true");
  request.mutable_spec()->set_working_directory("/");
  request.mutable_spec()->set_size(size);
  request.set_request_id(request_id);
  v1::EnvVar& variable = *request.add_environment();
  variable.set_name("TOKEN");
  variable.set_value("s3cret");
  return request;
}

// Reaches no host, except through fake agents.
class NoBootstrap final : public launcherd::Bootstrap {
 public:
  void start(const launcherd::BootstrapTarget& target, launcherd::JoinSource source,
             std::function<void(base::Result<launcherd::StartedAgent>)> done) override {
    tried.push_back(target.name);
    if (play) return done(play(*source.get()));
    done(base::error(base::Code::kUnavailable, "host {}: cannot be reached", target.name));
  }
  void run(const launcherd::BootstrapTarget& target, std::vector<std::string>,
           std::function<void(base::Result<launcherd::CommandResult>)> done) override {
    if (is_silent) return;
    done(base::error(base::Code::kUnavailable, "host {}: cannot be reached", target.name));
  }
  void cancel() override {}

  bool is_silent = false;  // commands never end
  std::vector<std::string> tried;
  std::function<launcherd::StartedAgent(const std::string& join)> play;
};

class JobManagerRig : public ::testing::Test {
 protected:
  JobManagerRig() {
    ::mkdir((directory_ / "jobs").c_str(), 0700);
    begin();
  }
  ~JobManagerRig() override { end(); }

  void begin() {
    rig_ = std::make_unique<testing_store::StoreRig>(path());
    logs_ = std::move(*launcherd::LogReader::start(rig_->loop()));
    launcherd::HostPoolOptions options;
    options.state_file = directory_ / "agents";
    options.on_change = [this](const launcherd::BootstrapTarget& host) {
      if (has_changes_ && manager_ != nullptr) manager_->agent_changed(host.name);
    };
    auto pool = launcherd::HostPool::start(rig_->loop(), clock_, std::move(options), &bootstrap_);
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = std::move(*pool);
    launcherd::JobSurroundings surroundings;
    surroundings.loop = &rig_->loop();
    surroundings.clock = &clock_;
    surroundings.logs = logs_.get();
    surroundings.pool = pool_.get();
    surroundings.traces = traces_in_use_;
    surroundings.jobs_directory = directory_ / "jobs";
    surroundings.on_line = [this](const std::string& line) { lines_.push_back(line); };
    manager_ =
        std::make_unique<launcherd::JobManager>(std::move(surroundings), &rig_->store(), launcherd::HostTable(hosts_));
    done_ = 0;
    manager_->on_ended = [this](const base::JobId&, base::WallTime forget_at) {
      forget_at_ = forget_at;
      count();
    };
    auto reader = launcherd::StoreReader::open(path());
    ASSERT_TRUE(reader.ok());
    ASSERT_TRUE(manager_->load_blocking(*reader).ok());
  }
  void end() {
    manager_.reset();
    pool_.reset();
    logs_.reset();
    rig_.reset();
  }

  std::string path() const { return directory_ / "jobs.sqlite"; }
  void count() {
    ++done_;
    rig_->done();
  }
  void run_until(int count) { ASSERT_TRUE(rig_->run_until(count)); }

  base::Result<v1::SubmitResponse> submit(const v1::SubmitRequest& request) {
    std::optional<base::Result<v1::SubmitResponse>> answer;
    manager_->submit(request, "bob", [&](base::Result<v1::SubmitResponse> got) {
      answer = std::move(got);
      count();
    });
    if (!answer) run_until(done_ + 1);
    return *answer;
  }
  // Drains all hosts, so that no further job starts.
  void drain_all() {
    for (const char* const name : {"n1", "n2"}) {
      manager_->drain(name, "test", [this](const base::Result<v1::LauncherHost>& host) {
        EXPECT_TRUE(host.ok()) << host.status();
        count();
      });
      run_until(done_ + 1);
    }
  }
  launcherd::StoredJob stored(const std::string& id) {
    auto reader = launcherd::StoreReader::open(path());
    return *reader->job(testing_store::job_id(id));
  }
  std::string reason(const std::string& id) {
    v1::Job job;
    job.set_id(id);
    manager_->describe(job);
    return job.reason();
  }

  TempDir directory_;
  std::vector<model::HostSpec> hosts_ = {{.name = "n1", .slots = 2}, {.name = "n2", .slots = 2}};
  base::SystemClock clock_;
  std::unique_ptr<testing_store::StoreRig> rig_;
  std::unique_ptr<launcherd::LogReader> logs_;
  NoBootstrap bootstrap_;
  std::unique_ptr<launcherd::HostPool> pool_;
  std::unique_ptr<launcherd::JobManager> manager_;
  base::WallTime forget_at_{};
  std::vector<std::string> lines_;
  bool has_changes_ = false;
  launcherd::JobTraces* traces_in_use_ = nullptr;  // set by a test before begin()
  int done_ = 0;
};

}  // namespace muster::testing_support
