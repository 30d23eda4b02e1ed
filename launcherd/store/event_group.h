// The bytes of several events in one row of the job store: each message after its length. Pure.
//
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcherd::inline store {

// Appends a message to a group. It must be shorter than 4 GiB.
void add_to_group(std::string_view message, std::string& group);
// Returns the messages of a group. nullopt if the bytes are not a group.
std::optional<std::vector<std::string>> messages_of_group(std::string_view group);

}  // namespace muster::launcherd::store
