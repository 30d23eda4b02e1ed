// Included before protobuf's generated code (proto/CMakeLists.txt), so that a program parses the descriptions of its
// messages when it first asks for one, and not when it starts: that takes a millisecond of each process. Most need
// descriptions only for JSON and error texts.
//
// Generated code hands its tables to AddDescriptorsRunner when the program starts, and calls AssignDescriptors before
// it uses a description. These two names lead to the functions here, which keep the tables in a list and add all of
// them at once. So nothing is added while another thread looks something up among the generated messages of Muster.
// Code that looks messages up by name, such as gRPC's reflection, calls register_descriptors() first.
#pragma once

#include <google/protobuf/generated_message_reflection.h>

namespace google::protobuf::internal {

// A link of the list. A static object of generated code.
class ListedDescriptors {
 public:
  explicit ListedDescriptors(const DescriptorTable* table);

 private:
  friend void register_listed_descriptors();
  const DescriptorTable* const table_;
  const ListedDescriptors* const next_;
};

// Adds the descriptions of all generated messages of Muster, once. Thread: any.
void register_listed_descriptors();

void assign_listed_descriptors(const DescriptorTable* table, bool eager = false);
Metadata assign_listed_descriptors(const DescriptorTable* (*table)(), once_flag* once, const Metadata& metadata);

}  // namespace google::protobuf::internal

#ifndef MUSTER_LISTS_DESCRIPTORS
#define AddDescriptorsRunner ListedDescriptors
#define AssignDescriptors assign_listed_descriptors
#endif
