// Names of communicators that are made out of others: all ranks arrive at the same one by themselves, and no two of a
// world have the same. As many bytes as connections and shared memory have room for, however deep they are nested.
#pragma once

#include <span>
#include <string>

namespace muster::collectives::inline call {

// Of the `number`th split of `parent`, those with this color.
std::string name_of_part(const std::string& parent, int number, int color);
// Of the `number`th group of these ranks of the world, in this order.
std::string name_of_group(const std::string& parent, std::span<const int> members, int number);

}  // namespace muster::collectives::call
