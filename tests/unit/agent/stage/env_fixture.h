// Archives of environments for tests of the agent's side.
#pragma once

#include <zstd.h>

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "proto/env_archive.h"

namespace muster::agent::env_test {

using Entries = std::vector<std::pair<proto::EnvEntry, std::string>>;

inline proto::EnvEntry file_entry(const std::string& path, const std::string& content, unsigned mode = 0644) {
  return {.mode = mode, .mtime_ns = 1'600'000'000'000'000'005, .size = content.size(), .path = path};
}

inline std::pair<proto::EnvEntry, std::string> a_file(const std::string& path, const std::string& content,
                                                      unsigned mode = 0644) {
  return {file_entry(path, content, mode), content};
}

inline std::pair<proto::EnvEntry, std::string> a_folder(const std::string& path, unsigned mode = 0755) {
  return {{.kind = proto::EnvEntry::Kind::kFolder, .mode = mode, .path = path}, ""};
}

inline std::pair<proto::EnvEntry, std::string> a_link(const std::string& path, const std::string& target) {
  return {{.kind = proto::EnvEntry::Kind::kLink, .size = target.size(), .path = path}, target};
}

inline std::pair<proto::EnvEntry, std::string> a_prefix(const std::string& path) {
  return {{.kind = proto::EnvEntry::Kind::kPrefix, .size = path.size()}, path};
}

struct Archive {
  std::string id;
  std::string packed;
};

inline Archive archive_of(const Entries& entries) {
  Archive archive;
  std::string bytes(proto::kEnvMagic);
  auto digest = proto::EnvDigest::begin();
  for (const auto& [entry, content] : entries) {
    bytes += proto::env_header(entry) + content;
    digest->add(entry);
    digest->add_content(content);
  }
  const proto::EnvEntry end{.kind = proto::EnvEntry::Kind::kEnd};
  bytes += proto::env_header(end);
  digest->add(end);
  archive.id = *digest->finish();
  archive.packed.resize(::ZSTD_compressBound(bytes.size()));
  archive.packed.resize(::ZSTD_compress(archive.packed.data(), archive.packed.size(), bytes.data(), bytes.size(), 1));
  return archive;
}

}  // namespace muster::agent::env_test
