#define MUSTER_LISTS_DESCRIPTORS  // here the names below are protobuf's own
#include "proto/listed_descriptors.h"

#include <google/protobuf/message.h>

#include <mutex>

#include "proto/register_descriptors.h"

namespace google::protobuf::internal {
namespace {

// The first link. Static objects of other files add theirs before main(), so it must not have a constructor.
constinit const ListedDescriptors* listed = nullptr;

}  // namespace

ListedDescriptors::ListedDescriptors(const DescriptorTable* table) : table_(table), next_(listed) {
  listed = this;
}

void register_listed_descriptors() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const ListedDescriptors* link = listed; link != nullptr; link = link->next_) {
      const AddDescriptorsRunner added(link->table_);
    }
  });
}

void assign_listed_descriptors(const DescriptorTable* table, bool eager) {
  register_listed_descriptors();
  AssignDescriptors(table, eager);
}

Metadata assign_listed_descriptors(const DescriptorTable* (*table)(), once_flag* once, const Metadata& metadata) {
  register_listed_descriptors();
  return AssignDescriptors(table, once, metadata);
}

}  // namespace google::protobuf::internal

namespace muster::proto {

void register_descriptors() {
  google::protobuf::internal::register_listed_descriptors();
}

}  // namespace muster::proto
