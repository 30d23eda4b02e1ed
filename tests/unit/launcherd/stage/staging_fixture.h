// Tests both ends of staging in one process: the launcher's state machine and its reader, and the agents' services.
// Each agent's folder stands for its host's disk.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "agent/job/stage_service.h"
#include "launcherd/stage/staging.h"

namespace muster::launcherd::staging_test {

namespace fs = std::filesystem;

class StagingTest : public ::testing::Test {
 protected:
  StagingTest() {
    fs::create_directories(root_ / "src");
    fs::create_directories(root_ / "state/keys");
  }
  ~StagingTest() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& content) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }
  std::string content(const std::string& path) const {
    std::stringstream text;
    text << std::ifstream(root_ / path).rdbuf();
    return text.str();
  }

  // `disks` gives for each host the folder that is its "/". A repeated folder is a shared file system.
  base::Status stage(const std::vector<std::string>& disks, const std::string& source, const std::string& destination) {
    sent_.clear();
    lines_.clear();
    notes_.clear();
    std::optional<base::Status> result;
    std::vector<Staging::Host> hosts;
    std::vector<std::unique_ptr<agent::StageService>> services;
    std::unique_ptr<Staging> staging;
    for (std::size_t i = 0; i < disks.size(); ++i) {
      const int agent = static_cast<int>(10 + i);
      hosts.push_back({agent, "n" + std::to_string(i + 1), "127.0.0.1"});
      services.push_back(
          std::make_unique<agent::StageService>(loop_, [this, &staging, agent](const v1::StageAnswer& answer) {
            if (on_answer_) on_answer_(agent, answer);
            staging->answered(agent, answer);
          }));
    }
    staging = std::make_unique<Staging>(
        loop_, std::vector<model::StagedPath>{{(root_ / source).string(), destination}}, hosts, "token",
        (root_ / "state").string(),
        Staging::Events{
            .send =
                [&](int agent, v1::LauncherMessage message) {
                  v1::StageOrder order = message.stage_order();
                  const auto index = static_cast<std::size_t>(agent - 10);
                  if (order.has_open()) {
                    order.mutable_open()->set_directory((root_ / disks[index]).string() + order.open().directory());
                  }
                  sent_[agent] += order.data().data().size();
                  if (on_data_ && order.has_data()) on_data_(order.data());
                  if (on_order_ && !on_order_(agent, order)) return;
                  if (agent == hung_agent_ && order.has_data()) return;
                  if (!order.has_data() || late_ == base::Duration::zero()) return services[index]->order(order);
                  later_.push_back(loop_.after(late_, [&services, index, order] { services[index]->order(order); }));
                },
            .say = [&](const std::string& line) { lines_.push_back(line); },
            .note = [&](const std::string& line) { notes_.push_back(line); },
            .done =
                [&](base::Status status) {
                  result = std::move(status);
                  loop_.stop();
                }},
        limits_);
    loop_.post([&] { staging->start(); });
    const base::Timer patience = loop_.after(std::chrono::seconds(60), [&] { loop_.stop(); });
    loop_.run();
    return result.value_or(base::error(base::Code::kDeadlineExceeded, "it did not end"));
  }
  bool has_marks(const std::string& below) const {
    for (const auto& entry : fs::recursive_directory_iterator(root_ / below)) {
      if (entry.path().filename().string().starts_with(kStageMark)) return true;
    }
    return false;
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("muster-staging-" + std::to_string(::getpid()));
  base::Loop loop_;
  std::map<int, std::size_t> sent_;  // bytes of content, by agent
  std::vector<std::string> lines_;
  std::vector<std::string> notes_;
  std::function<void(int, const v1::StageAnswer&)> on_answer_;  // called before the launcher gets an answer
  std::function<bool(int, v1::StageOrder&)> on_order_;          // may change an order; returns false to lose it
  std::function<void(const v1::StageData&)> on_data_;           // called before an agent gets the data
  int hung_agent_ = -1;                                         // the agent whose disk hangs; -1 if none
  base::Duration late_ = base::Duration::zero();                // delay of content on its way to a host
  std::vector<base::Timer> later_;
  StagingLimits limits_;
};

}  // namespace muster::launcherd::staging_test
