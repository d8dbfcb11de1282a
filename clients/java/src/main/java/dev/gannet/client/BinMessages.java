package dev.gannet.client;

import dev.gannet.v1.BinList;
import dev.gannet.v1.BinMap;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Translates values of bins into messages, and back. */
final class BinMessages {
    private BinMessages() {}

    static dev.gannet.v1.BinValue messageOf(BinValue value) {
        dev.gannet.v1.BinValue.Builder message = dev.gannet.v1.BinValue.newBuilder();
        if (value instanceof BinValue.Int number) {
            message.setInteger(number.value());
        } else if (value instanceof BinValue.Number number) {
            message.setNumber(number.value());
        } else if (value instanceof BinValue.Bool bool) {
            message.setBoolean(bool.value());
        } else if (value instanceof BinValue.Text text) {
            message.setTextBytes(Codec.utf8(text.value()));
        } else if (value instanceof BinValue.Binary binary) {
            message.setBinary(binary.value().data());
        } else if (value instanceof BinValue.Values values) {
            BinList.Builder list = BinList.newBuilder();
            values.values().forEach(each -> list.addValues(messageOf(each)));
            message.setList(list);
        } else {
            BinMap.Builder map = BinMap.newBuilder();
            ((BinValue.Entries) value).entries().forEach((key, each) ->
                    map.addEntries(BinMap.Entry.newBuilder().setKey(key.data()).setValue(messageOf(each))));
            message.setMap(map);
        }
        return message.build();
    }

    static BinValue valueOf(dev.gannet.v1.BinValue message) {
        return switch (message.getKindCase()) {
            case INTEGER -> new BinValue.Int(message.getInteger());
            case NUMBER -> new BinValue.Number(message.getNumber());
            case BOOLEAN -> new BinValue.Bool(message.getBoolean());
            case TEXT -> new BinValue.Text(message.getText());
            case BINARY -> new BinValue.Binary(new Bytes(message.getBinary()));
            case LIST -> {
                List<BinValue> values = new ArrayList<>();
                message.getList().getValuesList().forEach(each -> values.add(valueOf(each)));
                yield new BinValue.Values(values);
            }
            case MAP -> {
                Map<Bytes, BinValue> entries = new LinkedHashMap<>();
                message.getMap().getEntriesList()
                        .forEach(each -> entries.put(new Bytes(each.getKey()), valueOf(each.getValue())));
                yield new BinValue.Entries(entries);
            }
            case KIND_NOT_SET -> throw new BadReplyException("the value of a bin is empty");
        };
    }
}
