package dev.gannet.client;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.gannet.v1.BinValue;
import dev.gannet.v1.TopicValue;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The texts of a message, without those of values, which {@link Codec#utf8} has encoded.
 *
 * @param texts the fields of the message that are texts
 * @param parts the fields that are messages with texts
 */
record TextFields(List<FieldDescriptor> texts, Map<FieldDescriptor, TextFields> parts) {
    private static final Set<Descriptor> VALUES = Set.of(BinValue.getDescriptor(), TopicValue.getDescriptor());

    static TextFields of(Descriptor message) {
        List<FieldDescriptor> texts = new ArrayList<>();
        Map<FieldDescriptor, TextFields> parts = new LinkedHashMap<>();
        for (FieldDescriptor field : message.getFields()) {
            if (field.getJavaType() == FieldDescriptor.JavaType.STRING) {
                texts.add(field);
            } else if (field.getJavaType() == FieldDescriptor.JavaType.MESSAGE
                    && !VALUES.contains(field.getMessageType())) {
                TextFields part = of(field.getMessageType());
                if (!part.texts.isEmpty() || !part.parts.isEmpty()) {
                    parts.put(field, part);
                }
            }
        }
        return new TextFields(texts, parts);
    }

    /** Returns the name of a text that has a lone surrogate, which the encoding would replace. */
    Optional<String> bad(Message message) {
        for (FieldDescriptor field : texts) {
            for (Object text : valuesOf(message, field)) {
                if (!Codec.isWellFormed((String) text)) {
                    return Optional.of(field.getName());
                }
            }
        }
        for (Map.Entry<FieldDescriptor, TextFields> each : parts.entrySet()) {
            for (Object part : valuesOf(message, each.getKey())) {
                Optional<String> found = each.getValue().bad((Message) part);
                if (found.isPresent()) {
                    return found;
                }
            }
        }
        return Optional.empty();
    }

    /** Returns the values of a field: one, or those of a repeated field. */
    private static List<?> valuesOf(Message message, FieldDescriptor field) {
        if (field.isRepeated()) {
            return (List<?>) message.getField(field);
        }
        boolean isAbsent = field.getJavaType() == FieldDescriptor.JavaType.MESSAGE && !message.hasField(field);
        return isAbsent ? List.of() : List.of(message.getField(field));
    }
}
