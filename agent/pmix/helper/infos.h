// A growing array of pmix_info_t, in the form that libpmix's functions take. libpmix copies the values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/pmix/helper/library.h"

namespace muster::agent::pmix {

class Infos {
 public:
  explicit Infos(const Library& library) : library_(library) {}

  void text(const char* key, const std::string& value) { add(key, value.c_str(), PMIX_STRING); }
  void flag(const char* key, bool value) { add(key, &value, PMIX_BOOL); }
  void count(const char* key, std::size_t value) {
    const auto number = static_cast<std::uint32_t>(value);
    add(key, &number, PMIX_UINT32);
  }
  void short_count(const char* key, std::size_t value) {
    const auto number = static_cast<std::uint16_t>(value);
    add(key, &number, PMIX_UINT16);
  }
  void rank(const char* key, int value) {
    const auto number = static_cast<pmix_rank_t>(value);
    add(key, &number, PMIX_PROC_RANK);
  }
  void process(const char* key, pmix_proc_t value) { add(key, &value, PMIX_PROC); }
  void regex(const char* key, char* value) { add(key, value, PMIX_REGEX); }
  void array(const char* key, Infos& values) {
    pmix_data_array_t array{};
    array.type = PMIX_INFO;
    array.size = values.size();
    array.array = values.data();
    add(key, &array, PMIX_DATA_ARRAY);
  }

  pmix_info_t* data() { return all_.data(); }
  std::size_t size() const { return all_.size(); }

 private:
  void add(const char* key, const void* value, pmix_data_type_t type) {
    library_.info_load(&all_.emplace_back(), key, value, type);
  }

  const Library& library_;
  std::vector<pmix_info_t> all_;
};

}  // namespace muster::agent::pmix
