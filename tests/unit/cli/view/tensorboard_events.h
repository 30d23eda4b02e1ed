// Reads a file for TensorBoard back, for tests of its writers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/view/tensorboard_file.h"
#include "proto/wire/tensorboard.pb.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::testing_support {

// The events of a file, whose records must be whole and right.
inline std::vector<tensorboard::Event> tensorboard_events(std::string_view bytes) {
  constexpr std::size_t kHead = 12;
  std::vector<tensorboard::Event> events;
  while (bytes.size() > kHead) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const std::string_view data = bytes.substr(kHead, length);
    EXPECT_EQ(bytes.substr(0, kHead + length + 4), cli::tfrecord(data));
    tensorboard::Event event;
    EXPECT_TRUE(event.ParseFromString(std::string(data)));
    events.push_back(event);
    bytes.remove_prefix(std::min<std::size_t>(bytes.size(), kHead + length + 4));
  }
  EXPECT_TRUE(bytes.empty());
  return events;
}

// Those of the only file in this folder.
inline std::vector<tensorboard::Event> tensorboard_events_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path().string());
  EXPECT_EQ(files.size(), 1U);
  if (files.empty()) return {};
  const std::string bytes = read_text(files.front());
  return tensorboard_events(bytes);
}

// All values of each tag, in order.
inline std::map<std::string, std::vector<double>> scalars_of(const std::vector<tensorboard::Event>& events) {
  std::map<std::string, std::vector<double>> scalars;
  for (const tensorboard::Event& event : events) {
    for (const auto& value : event.summary().value()) {
      if (value.value_case() == tensorboard::Summary::Value::kSimpleValue) {
        scalars[value.tag()].push_back(static_cast<double>(value.simple_value()));
      }
    }
  }
  return scalars;
}

// All texts, a line each.
inline std::string texts_of(const std::vector<tensorboard::Event>& events) {
  std::string texts;
  for (const tensorboard::Event& event : events) {
    for (const auto& value : event.summary().value()) {
      if (value.metadata().plugin_data().plugin_name() == "text") texts += value.tensor().string_val(0) + "\n";
    }
  }
  return texts;
}

}  // namespace muster::testing_support
